// Command protogen generates the Go code of a .proto file of this repository, with
// nothing but modules: no protoc needs to be installed.
//
//	go -C tools run ./protogen api/readleasepb/readlease.proto
//
// The file is named by its path in the repository, which is also the name under which it is
// known at run time. The code is written beside it and checked in, so that users of the main
// module need none of this. `go generate ./api/readleasepb` runs it, and the test of this
// package fails when that was forgotten.
package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"

	"github.com/bufbuild/protocompile"
	"github.com/bufbuild/protocompile/protoutil"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"
	"google.golang.org/protobuf/types/pluginpb"
)

// plugins generate the code: messages, and services. go.mod has their versions.
var plugins = []string{"protoc-gen-go", "protoc-gen-go-grpc"}

// root is the repository, as seen from this module.
const root = ".."

func main() {
	if len(os.Args) != 2 {
		fmt.Fprintln(os.Stderr, "protogen: want one .proto file, by its path in the repository")
		os.Exit(2)
	}
	files, err := generate(os.Args[1], root)
	if err == nil {
		err = write(files, root)
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "protogen:", err)
		os.Exit(1)
	}
}

// generate returns the generated files by their paths in the repository.
func generate(name, root string) (map[string]string, error) {
	compiler := protocompile.Compiler{
		Resolver:       protocompile.WithStandardImports(&protocompile.SourceResolver{ImportPaths: []string{root}}),
		SourceInfoMode: protocompile.SourceInfoStandard, // comments go into the code
	}
	compiled, err := compiler.Compile(context.Background(), name)
	if err != nil {
		return nil, fmt.Errorf("compile: %w", err)
	}
	request := &pluginpb.CodeGeneratorRequest{FileToGenerate: []string{name}, Parameter: proto.String("paths=source_relative")}
	addWithImports(request, map[string]bool{}, compiled[0])
	files := map[string]string{}
	for _, plugin := range plugins {
		response, err := run(plugin, request)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", plugin, err)
		}
		for _, f := range response.GetFile() {
			files[f.GetName()] = f.GetContent()
		}
	}
	return files, nil
}

// addWithImports adds a file behind those that it imports, as plugins want it.
func addWithImports(request *pluginpb.CodeGeneratorRequest, seen map[string]bool, file protoreflect.FileDescriptor) {
	if seen[file.Path()] {
		return
	}
	seen[file.Path()] = true
	imports := file.Imports()
	for i := range imports.Len() {
		addWithImports(request, seen, imports.Get(i).FileDescriptor)
	}
	request.ProtoFile = append(request.ProtoFile, protoutil.ProtoFromFileDescriptor(file))
}

// run gives a request to a plugin of this module.
func run(plugin string, request *pluginpb.CodeGeneratorRequest) (*pluginpb.CodeGeneratorResponse, error) {
	in, err := proto.Marshal(request)
	if err != nil {
		return nil, err
	}
	cmd := exec.Command("go", "tool", plugin)
	cmd.Stdin, cmd.Stderr = bytes.NewReader(in), os.Stderr
	out, err := cmd.Output()
	if err != nil {
		return nil, err
	}
	var response pluginpb.CodeGeneratorResponse
	if err := proto.Unmarshal(out, &response); err != nil {
		return nil, err
	}
	if response.Error != nil {
		return nil, errors.New(response.GetError())
	}
	return &response, nil
}

func write(files map[string]string, root string) error {
	for name, text := range files {
		if err := os.WriteFile(filepath.Join(root, name), []byte(text), 0o644); err != nil {
			return err
		}
	}
	return nil
}
