package diff

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"time"
)

// site is a server as clients of HTTP see it, with the members and leases that its answers name.
type site struct {
	*Target
	endpoints []string // host:port of its members, the leader first
	at        int      // the member that is asked
	members   []uint64 // the server's own first, then those that were added, in order
	names     []string // of its own
	token     string
	urls      []string // its own, for clients and for members
}

// turn has a member asked from now on. It waits until the member has applied what any has answered: AuthStatus, which anybody may
// ask for, is answered behind everything before it.
func (s *site) turn(ctx context.Context, member int) error {
	s.at = member % len(s.endpoints)
	return s.overtake(ctx, s.at)
}

// answer is what a request of HTTP gave. The body is read to the end, or to the part that ends a stream.
type answer struct {
	status int
	kind   string // the content type
	body   []byte
}

func (a answer) String() string {
	body := a.body
	if len(body) > 800 {
		body = body[:800]
	}
	return fmt.Sprintf("%d %s %s", a.status, a.kind, body)
}

// patience is how long an answer of HTTP may take. A server that does not answer by then is silent.
const patience = 3 * time.Second

// silent is the status of a request that got no answer.
const silent = -1

// ask makes a request of HTTP. Until reports whether a stream has told enough.
func (s *site) ask(ctx context.Context, verb, path, body string, until func([]byte) bool) answer {
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	r, err := http.NewRequestWithContext(ctx, verb, "http://"+s.endpoints[s.at]+path, strings.NewReader(body))
	if err != nil {
		panic(err)
	}
	if s.token != "" {
		r.Header.Set("Authorization", s.token)
	}
	client := http.Client{CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }}
	got, err := client.Do(r)
	if err != nil {
		return answer{status: silent}
	}
	defer got.Body.Close()
	a := answer{status: got.StatusCode, kind: got.Header.Get("Content-Type")}
	if until == nil {
		a.body, _ = io.ReadAll(got.Body)
		return a
	}
	read := make([]byte, 64<<10)
	for !until(a.body) {
		n, err := got.Body.Read(read)
		a.body = append(a.body, read[:n]...)
		if err != nil {
			break
		}
	}
	return a
}

// values decodes the values of JSON that a body has, one after the other. A body that is none is one string.
func values(body []byte) (list []any) {
	in := json.NewDecoder(bytes.NewReader(body))
	in.UseNumber()
	for {
		var v any
		switch err := in.Decode(&v); {
		case err == io.EOF:
			return list
		case err != nil:
			return []any{string(body)}
		}
		list = append(list, v)
	}
}

// plain replaces, in a value of JSON, what two correct servers may choose: IDs by their order, the rest by whether it is there.
func (s *site) plain(v any) any {
	switch v := v.(type) {
	case map[string]any:
		for key, inner := range v {
			switch key {
			case "cluster_id", "member_id", "raft_term", "raftTerm", "raftIndex", "raftAppliedIndex", "dbSize", "dbSizeInUse":
				v[key] = "set"
			case "dbSizeQuota", "hash": // 0 is one, too
				delete(v, key)
			case "ID", "memberID", "leader", "lease":
				v[key] = s.symbol(inner)
			case "name":
				if i := slices.Index(s.names, fmt.Sprint(inner)); i >= 0 {
					inner = fmt.Sprintf("name %d", i)
				}
				v[key] = s.plain(inner)
			case "leases", "members", "errors", "alarms":
				v[key] = sorted(s.plain(inner))
			default:
				v[key] = s.plain(inner)
			}
		}
		return v
	case []any:
		for i := range v {
			v[i] = s.plain(v[i])
		}
		return v
	case string:
		for i, id := range s.members {
			v = strings.ReplaceAll(v, strconv.FormatUint(id, 10), fmt.Sprintf("member %d", i))
		}
		for i, url := range s.urls {
			v = strings.ReplaceAll(v, url, fmt.Sprintf("own %d", i))
		}
		// The library of protobuf writes one of two spaces, or one or two, by the program that it is in.
		return strings.NewReplacer("\u00a0", " ", "  ", " ").Replace(v)
	}
	return v
}

// symbol names an ID by when the server chose it.
func (s *site) symbol(v any) any {
	text, _ := v.(string)
	n, err := strconv.ParseUint(text, 10, 64)
	if err != nil {
		return s.plain(v)
	}
	if i := slices.Index(s.members, n); i >= 0 {
		return fmt.Sprintf("member %d", i)
	}
	if i := slices.Index(s.granted, int64(n)); i >= 0 {
		return fmt.Sprintf("lease %d", i)
	}
	return v
}

// sorted sorts a list by its text.
func sorted(v any) any {
	list, ok := v.([]any)
	if !ok {
		return v
	}
	slices.SortFunc(list, func(a, b any) int { return strings.Compare(fmt.Sprint(a), fmt.Sprint(b)) })
	return list
}

// told is the text of an answer by which two servers are compared.
func (s *site) told(a answer) string {
	var parts []string
	if strings.HasPrefix(string(a.body), "[+]") || strings.HasPrefix(string(a.body), "[-]") { // checks, in any order
		return fmt.Sprintf("%d %s %v", a.status, a.kind, slices.Sorted(strings.SplitSeq(string(a.body), "\n")))
	}
	for _, v := range values(a.body) {
		text, err := json.Marshal(s.plain(v))
		if err != nil {
			panic(err)
		}
		parts = append(parts, string(text))
	}
	return fmt.Sprintf("%d %s %s", a.status, a.kind, strings.Join(parts, "\n"))
}
