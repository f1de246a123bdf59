package kv

import (
	"bytes"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
	"go.etcd.io/etcd/api/v3/mvccpb"
)

var rewrite = flag.Bool("rewrite-scripts", false, "rewrite testdata/*.txt with what the store answers now")

// TestScripts runs the stories in testdata. Lines that begin with "> " are
// commands (for their words see script.command), the lines under one are its
// output, and comments begin with "#". With -rewrite-scripts the outputs are replaced:
// commit the changes only if you understand them.
func TestScripts(t *testing.T) {
	files, err := filepath.Glob("testdata/*.txt")
	if err != nil || len(files) == 0 {
		t.Fatal("no scripts: ", err)
	}
	for _, file := range files {
		t.Run(strings.TrimSuffix(filepath.Base(file), ".txt"), func(t *testing.T) {
			text, err := os.ReadFile(file)
			if err != nil {
				t.Fatal(err)
			}
			want := string(text)
			got := newScript(t).run(want)
			if *rewrite {
				if err := os.WriteFile(file, []byte(got), 0o644); err != nil {
					t.Fatal(err)
				}
				return
			}
			wants := strings.Split(want, "\n")
			for i, line := range strings.Split(got, "\n") {
				if i >= len(wants) || line != wants[i] {
					t.Fatalf("%s:%d: got %q, want %q\nthe whole output:\n%s", file, i+1, line, wants[min(i, len(wants)-1)], got)
				}
			}
			if len(got) != len(want) {
				t.Fatalf("%s: lines are left over at the end", file)
			}
		})
	}
}

type script struct {
	t     *testing.T
	s     *Store
	views map[string]View
	pins  map[string]func()
	out   strings.Builder
}

func newScript(t *testing.T) *script {
	return &script{t: t, s: New(), views: map[string]View{}, pins: map[string]func(){}}
}

// run gives the script with the outputs of now.
func (sc *script) run(text string) string {
	lines := strings.Split(text, "\n")
	for i := 0; i < len(lines); i++ {
		line := lines[i]
		switch {
		case line == "" || strings.HasPrefix(line, "#"):
			sc.print("%s", line)
		case strings.HasPrefix(line, "> "):
			sc.print("%s", line)
			block := []string{line[2:]}
			for i+1 < len(lines) && strings.HasPrefix(lines[i+1], ">   ") {
				i++
				sc.print("%s", lines[i])
				block = append(block, strings.TrimSpace(lines[i][1:]))
			}
			sc.command(block)
		}
	}
	return strings.TrimSuffix(sc.out.String(), "\n")
}

func (sc *script) print(format string, args ...any) { fmt.Fprintf(&sc.out, format+"\n", args...) }

// done prints an error without its advice, or what worked.
func (sc *script) done(err error, format string, args ...any) {
	if err != nil {
		text, _, _ := strings.Cut(strings.TrimPrefix(err.Error(), "kv: "), ":")
		sc.print("error: %s", text)
		return
	}
	sc.print(format, args...)
}

func (sc *script) command(block []string) {
	words := strings.Fields(block[0])
	view := sc.s.View()
	if name, ok := strings.CutPrefix(words[0], "@"); ok { // read a kept view
		view, words = sc.views[name], words[1:]
	}
	switch verb, args := words[0], words[1:]; verb {
	case "put":
		resp, err := sc.s.Put(sc.op(words).GetRequestPut())
		sc.done(err, "revision %d", resp.GetHeader().GetRevision())
		sc.kvs("previous ", resp.GetPrevKv())
	case "del":
		resp, err := sc.s.DeleteRange(sc.op(words).GetRequestDeleteRange())
		sc.done(err, "revision %d, %d deleted", resp.GetHeader().GetRevision(), resp.GetDeleted())
		sc.kvs("previous ", resp.GetPrevKvs()...)
	case "range":
		resp, err := view.Range(sc.op(words).GetRequestRange())
		sc.ranged(resp, err)
	case "txn":
		resp, err := sc.s.Txn(sc.txn(block[1:]))
		sc.txnDone(resp, err)
	case "events":
		sc.events(view, sc.number(args[0]))
	case "grant":
		sc.done(sc.s.Grant(sc.number(args[0]), sc.number(args[1])), "ok")
	case "revoke":
		sc.done(sc.s.Revoke(sc.number(args[0])), "revision %d", sc.s.Revision())
	case "checkpoint":
		sc.done(sc.s.Checkpoint(sc.number(args[0]), sc.number(args[1])), "ok")
	case "leases":
		for l := range view.Leases() {
			sc.print("lease %d ttl %d remaining %d keys %q", l.ID, l.TTL, l.Remaining, view.LeaseKeys(l.ID))
		}
	case "compact":
		sc.done(sc.s.Compact(sc.number(args[0])), "compacted at %d", sc.s.CompactRevision())
	case "reclaim":
		before := sc.s.View().Stats().Versions
		for sc.s.Reclaim(1) {
		}
		sc.print("%d versions reclaimed, %d left", before-sc.s.View().Stats().Versions, sc.s.View().Stats().Versions)
	case "view":
		sc.views[args[0]] = view
		sc.print("revision %d", view.Revision())
	case "pin":
		sc.views[args[0]], sc.pins[args[0]] = sc.s.Pin()
		sc.print("revision %d", view.Revision())
	case "unpin":
		sc.pins[args[0]]()
	case "restart":
		sc.restart()
	default:
		sc.t.Fatalf("unknown command %q", verb)
	}
}

// restart replaces the store by one that was read from its snapshot.
func (sc *script) restart() {
	before := snapshot(sc.t, sc.s.View())
	s, err := Read(bytes.NewReader(before))
	if err != nil {
		sc.t.Fatal(err)
	}
	if after := snapshot(sc.t, s.View()); !bytes.Equal(before, after) {
		sc.t.Fatalf("the snapshot of the restored store differs")
	}
	sc.s = s
	sc.print("revision %d, compacted at %d", s.Revision(), s.CompactRevision())
}

func (sc *script) kvs(prefix string, kvs ...*mvccpb.KeyValue) {
	for _, kv := range kvs {
		if kv == nil {
			continue
		}
		lease := ""
		if kv.Lease != 0 {
			lease = fmt.Sprintf(" lease %d", kv.Lease)
		}
		sc.print("%s%s = %q create %d mod %d version %d%s", prefix, kv.Key, kv.Value, kv.CreateRevision, kv.ModRevision, kv.Version, lease)
	}
}

func (sc *script) ranged(resp *pb.RangeResponse, err error) {
	sc.kvs("", resp.GetKvs()...)
	more := ""
	if resp.GetMore() {
		more = ", and more"
	}
	sc.done(err, "revision %d, count %d%s", resp.GetHeader().GetRevision(), resp.GetCount(), more)
}

func (sc *script) txnDone(resp *pb.TxnResponse, err error) {
	for _, op := range resp.GetResponses() {
		switch {
		case op.GetResponsePut() != nil:
			sc.print("put at revision %d", op.GetResponsePut().GetHeader().GetRevision())
			sc.kvs("previous ", op.GetResponsePut().PrevKv)
		case op.GetResponseDeleteRange() != nil:
			d := op.GetResponseDeleteRange()
			sc.print("%d deleted at revision %d", d.Deleted, d.GetHeader().GetRevision())
			sc.kvs("previous ", d.PrevKvs...)
		case op.GetResponseRange() != nil:
			sc.ranged(op.GetResponseRange(), nil)
		}
	}
	sc.done(err, "succeeded %v, revision %d", resp.GetSucceeded(), resp.GetHeader().GetRevision())
}

func (sc *script) events(v View, from int64) {
	events, err := v.Events(from)
	if err != nil {
		sc.done(err, "")
		return
	}
	for e := range events {
		if e.Type == mvccpb.Event_DELETE {
			sc.print("%d delete %s", e.KV.ModRevision, e.KV.Key)
		} else {
			sc.print("%d put %s = %q", e.KV.ModRevision, e.KV.Key, e.KV.Value)
		}
		sc.kvs("  was ", e.Prev())
	}
}

// txn reads the lines of a transaction: "if TARGET KEY[..END] OP VALUE", "then OP"
// and "else OP".
func (sc *script) txn(lines []string) *pb.TxnRequest {
	r := &pb.TxnRequest{}
	for _, line := range lines {
		words := strings.Fields(line)
		switch words[0] {
		case "if":
			r.Compare = append(r.Compare, sc.compare(words[1:]))
		case "then":
			r.Success = append(r.Success, sc.op(words[1:]))
		case "else":
			r.Failure = append(r.Failure, sc.op(words[1:]))
		default:
			sc.t.Fatalf("unknown word %q", words[0])
		}
	}
	return r
}

func (sc *script) compare(words []string) *pb.Compare {
	key, end, _ := strings.Cut(words[1], "..")
	c := &pb.Compare{
		Key:      unescape(key),
		RangeEnd: unescape(end),
		Target:   pb.Compare_CompareTarget(pb.Compare_CompareTarget_value[strings.ToUpper(words[0])]),
		Result: map[string]pb.Compare_CompareResult{
			"=": pb.Compare_EQUAL, "!=": pb.Compare_NOT_EQUAL, "<": pb.Compare_LESS, ">": pb.Compare_GREATER,
		}[words[2]],
	}
	switch c.Target {
	case pb.Compare_VALUE:
		c.TargetUnion = &pb.Compare_Value{Value: unescape(words[3])}
	case pb.Compare_CREATE:
		c.TargetUnion = &pb.Compare_CreateRevision{CreateRevision: sc.number(words[3])}
	case pb.Compare_MOD:
		c.TargetUnion = &pb.Compare_ModRevision{ModRevision: sc.number(words[3])}
	case pb.Compare_VERSION:
		c.TargetUnion = &pb.Compare_Version{Version: sc.number(words[3])}
	case pb.Compare_LEASE:
		c.TargetUnion = &pb.Compare_Lease{Lease: sc.number(words[3])}
	}
	return c
}

// op reads "put KEY VALUE", "del KEY [END]" or "range KEY [END]" with options.
func (sc *script) op(words []string) *pb.RequestOp {
	var plain [][]byte
	options := map[string]string{}
	for _, w := range words[1:] {
		if name, value, ok := strings.Cut(w, "="); ok || strings.HasPrefix(w, "-") {
			options[name] = value
		} else {
			plain = append(plain, unescape(w))
		}
	}
	plain = append(plain, nil, nil)
	is := func(option string) bool { _, ok := options[option]; return ok }
	number := func(option string) int64 {
		if !is(option) {
			return 0
		}
		return sc.number(options[option])
	}
	switch words[0] {
	case "put":
		return &pb.RequestOp{Request: &pb.RequestOp_RequestPut{RequestPut: &pb.PutRequest{
			Key: plain[0], Value: plain[1], Lease: number("lease"), PrevKv: is("-prev"),
			IgnoreValue: is("-ignore-value"), IgnoreLease: is("-ignore-lease"),
		}}}
	case "del":
		return &pb.RequestOp{Request: &pb.RequestOp_RequestDeleteRange{RequestDeleteRange: &pb.DeleteRangeRequest{
			Key: plain[0], RangeEnd: plain[1], PrevKv: is("-prev"),
		}}}
	case "range":
		return &pb.RequestOp{Request: &pb.RequestOp_RequestRange{RequestRange: &pb.RangeRequest{
			Key: plain[0], RangeEnd: plain[1], Revision: number("rev"), Limit: number("limit"),
			SortTarget: pb.RangeRequest_SortTarget(pb.RangeRequest_SortTarget_value[strings.ToUpper(options["by"])]),
			SortOrder:  pb.RangeRequest_SortOrder(pb.RangeRequest_SortOrder_value[strings.ToUpper(options["order"])]),
			KeysOnly:   is("-keys-only"), CountOnly: is("-count-only"),
			MinModRevision: number("min-mod"), MaxModRevision: number("max-mod"),
			MinCreateRevision: number("min-create"), MaxCreateRevision: number("max-create"),
		}}}
	}
	sc.t.Fatalf("unknown operation %q", words[0])
	return nil
}

func (sc *script) number(word string) int64 {
	n, err := strconv.ParseInt(word, 10, 64)
	if err != nil {
		sc.t.Fatal(err)
	}
	return n
}

// unescape reads \0 as the zero byte.
func unescape(word string) []byte {
	return []byte(strings.ReplaceAll(word, `\0`, "\x00"))
}
