package fence_test

import (
	"fmt"
	"io"
	"log"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"

	"github.com/tenure-lease/tenure/fence"
)

// A file that only the present holder writes.
func ExampleFile_Do() {
	dir, err := os.MkdirTemp("", "ledger")
	if err != nil {
		log.Fatal(err)
	}
	defer os.RemoveAll(dir)
	ledger := filepath.Join(dir, "ledger")
	write := func(token uint64, text string) error { // with lease.Token()
		return fence.File{Path: ledger + ".token"}.Do(token, func() error { return os.WriteFile(ledger, []byte(text), 0o600) })
	}
	fmt.Println(write(7, "by the seventh holder"))
	fmt.Println(write(6, "by the sixth, which was stopped for an hour"))
	text, err := os.ReadFile(ledger)
	fmt.Printf("%s, %v\n", text, err)
	// Output:
	// <nil>
	// stale fencing token: 6, but 7 was seen: the lease has passed to another holder
	// by the seventh holder, <nil>
}

// An HTTP service whose requests carry tokens.
func ExampleHandler() {
	var highest fence.Memory // a File or Row survives a restart
	service := httptest.NewServer(fence.Handler(&highest, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		fmt.Fprint(w, "done")
	})))
	defer service.Close()
	for _, token := range []string{"7", "6", "7"} {
		request, err := http.NewRequest("POST", service.URL, strings.NewReader("a write"))
		if err != nil {
			log.Fatal(err)
		}
		request.Header.Set(fence.Header, token)
		response, err := http.DefaultClient.Do(request)
		if err != nil {
			log.Fatal(err)
		}
		text, err := io.ReadAll(response.Body)
		response.Body.Close()
		fmt.Println(token, response.StatusCode, strings.SplitN(string(text), ":", 2)[0], err)
	}
	// Output:
	// 7 200 done <nil>
	// 6 409 stale fencing token <nil>
	// 7 200 done <nil>
}
