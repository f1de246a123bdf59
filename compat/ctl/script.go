package ctl

import (
	"bufio"
	"bytes"
	"context"
	"fmt"
	"io"
	"os"
	"os/exec"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"
)

// Script runs etcdctl against one endpoint.
type Script struct {
	Etcdctl  string // path of the program
	Endpoint string

	ids     map[string]string // real id to its number
	real    map[string]string // and back
	running []*exec.Cmd
}

var suffix = regexp.MustCompile(`^(.*?) \| (\d+) lines( &)?$`)

// commandTimeout is for one command, which takes well under a second.
const commandTimeout = 15 * time.Second

// Run runs the commands of a transcript and returns the transcript that they
// give now.
func (s *Script) Run(ctx context.Context, transcript string) (string, error) {
	s.ids, s.real = map[string]string{}, map[string]string{}
	defer func() {
		for _, cmd := range s.running {
			cmd.Process.Kill()
			cmd.Wait()
		}
	}()
	var out strings.Builder
	lines := strings.Split(strings.TrimSuffix(transcript, "\n"), "\n")
	for i := 0; i < len(lines); i++ {
		line := lines[i]
		if strings.HasPrefix(line, "#") || line == "" && (i+1 == len(lines) || strings.HasPrefix(lines[i+1], "#")) {
			fmt.Fprintln(&out, line)
		}
		command, ok := strings.CutPrefix(line, "$ ")
		if !ok {
			continue // output of the last time
		}
		fmt.Fprintln(&out, line)
		var input strings.Builder
		for i+1 < len(lines) && strings.HasPrefix(lines[i+1], "<") {
			i++
			fmt.Fprintln(&out, lines[i])
			fmt.Fprintln(&input, strings.TrimPrefix(strings.TrimPrefix(lines[i], "<"), " "))
		}
		text, err := s.command(ctx, command, input.String())
		if err != nil {
			return "", fmt.Errorf("%s: %w", line, err)
		}
		out.WriteString(s.mask(text))
	}
	return out.String(), nil
}

// command runs one command line and returns its output.
func (s *Script) command(ctx context.Context, line, input string) (string, error) {
	want, stays := -1, false
	if m := suffix.FindStringSubmatch(line); m != nil {
		line, stays = m[1], m[3] != ""
		want, _ = strconv.Atoi(m[2])
	}
	for number, id := range s.real {
		line = regexp.MustCompile(`\b`+number+`\b`).ReplaceAllString(line, id)
	}
	ctx, cancel := context.WithTimeout(ctx, commandTimeout)
	defer cancel()
	cmd := exec.Command(s.Etcdctl, append([]string{"--endpoints=" + s.Endpoint}, strings.Fields(line)...)...)
	cmd.Stdin = strings.NewReader(input)
	if want < 0 {
		var out bytes.Buffer
		cmd.Stdout, cmd.Stderr = &out, &out
		if err := cmd.Start(); err != nil {
			return "", err
		}
		stop := context.AfterFunc(ctx, func() { cmd.Process.Kill() })
		defer stop()
		if err := cmd.Wait(); err != nil {
			if ctx.Err() != nil {
				return "", fmt.Errorf("no end after %v, output %q", commandTimeout, out.String())
			}
			fmt.Fprintf(&out, "exit %d\n", cmd.ProcessState.ExitCode())
		}
		return out.String(), nil
	}
	stdout, err := cmd.StdoutPipe()
	if err != nil {
		return "", err
	}
	if err := cmd.Start(); err != nil {
		return "", err
	}
	stop := context.AfterFunc(ctx, func() { cmd.Process.Kill() })
	text, err := readLines(stdout, want)
	stop()
	if stays {
		s.running = append(s.running, cmd)
		return text, err
	}
	cmd.Process.Signal(os.Interrupt)
	stop = context.AfterFunc(ctx, func() { cmd.Process.Kill() })
	defer stop()
	io.Copy(io.Discard, stdout)
	cmd.Wait()
	return text, err
}

func readLines(r io.Reader, n int) (string, error) {
	var out strings.Builder
	scan := bufio.NewScanner(r)
	for range n {
		if !scan.Scan() {
			return out.String(), fmt.Errorf("ended before line %d, output %q", n, out.String())
		}
		fmt.Fprintln(&out, scan.Text())
	}
	return out.String(), nil
}

var masks = []struct {
	pattern *regexp.Regexp
	mask    string
}{
	{regexp.MustCompile(`(?m)^\{"level".*\n`), ""},
	{regexp.MustCompile(`(http://)?127\.0\.0\.1:\d+`), "ADDRESS"},
	{regexp.MustCompile(`("ClusterID" : |"MemberID" : |"RaftTerm" : |"cluster_id":|"member_id":|"raft_term":)\d+`), "${1}N"},
	{regexp.MustCompile(`(Member|cluster) +`), "${1} "}, // etcdctl pads an ID that begins with zeros
	{regexp.MustCompile(`took = \S+`), "took = TIME"},
	{regexp.MustCompile(`remaining\(\d+s\)`), "remaining(TIME)"},
	// endpoint status: version, storage version, sizes, share in use, quota,
	// leader, learner, term, index, applied
	{regexp.MustCompile(`(ADDRESS, \w+), .*, (true|false), (true|false), \d+, \d+, \d+,`),
		"$1, VERSIONS, SIZES, $2, $3, TERM, INDEX, INDEX,"},
}

var attachedKeys = regexp.MustCompile(`\[leased.*?\]`)

var idPattern = regexp.MustCompile(`\b[0-9a-f]{12,16}\b`)

// mask replaces what differs from run to run.
func (s *Script) mask(text string) string {
	for _, m := range masks {
		text = m.pattern.ReplaceAllString(text, m.mask)
	}
	text = attachedKeys.ReplaceAllStringFunc(text, func(keys string) string { // etcd gives them in no order
		list := strings.Fields(strings.Trim(keys, "[]"))
		slices.Sort(list)
		return "[" + strings.Join(list, " ") + "]"
	})
	return idPattern.ReplaceAllStringFunc(text, func(id string) string {
		if s.ids[id] == "" {
			s.ids[id] = fmt.Sprintf("ID%d", len(s.ids)+1)
			s.real[s.ids[id]] = id
		}
		return s.ids[id]
	})
}
