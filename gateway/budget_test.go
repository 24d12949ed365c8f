package gateway_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"runtime"
	"strings"
	"sync"
	"testing"
	"time"

	"troupe/gateway"
	"troupe/testkit"
	"troupe/testkit/clock"
)

// testTimeout bounds the wait for an expected state.
const (
	testTimeout    = 20 * time.Second
	bodyMemoryWait = time.Second // how long a body waits for memory
)

// TestTooLongPromptRefusedBeforeTokenizing checks that prompts that cannot fit are refused before
// tokenizing and rendering, which would allocate many times the size of the request.
func TestTooLongPromptRefusedBeforeTokenizing(t *testing.T) {
	w := newTestGateway(t, noOutput)
	const size = 1 << 20
	word := strings.Repeat("ab", size/2)
	all := strings.TrimSuffix(strings.Repeat("1,", size/2), ",")
	for name, tc := range map[string]struct{ path, body string }{
		"text":  {"/v1/completions", `"prompt":"` + word + `"`},
		"texts": {"/v1/completions", `"prompt":["a","` + word + `"]`},
		"chat":  {"/v1/chat/completions", `"messages":[{"role":"user","content":"` + word + `"}]`},
		"parts": {"/v1/chat/completions",
			`"messages":[{"role":"user","content":[{"type":"text","text":"` + word + `"}]}]`},
		"many messages": {"/v1/chat/completions",
			`"messages":[` +
				strings.TrimSuffix(strings.Repeat(`{"role":"user","content":"`+word[:size/64]+`"},`, 64), ",") + `]`},
		"token ids":    {"/v1/completions", `"prompt":[` + all + `]`},
		"lists of ids": {"/v1/completions", `"prompt":[[` + all + `]]`},
	} {
		body := `{"model":"kjv",` + tc.body + `}`
		var rec *httptest.ResponseRecorder
		cost := allocatedBytes(func() { rec = w.post(tc.path, body) })
		if rec.Code != http.StatusBadRequest || !strings.Contains(rec.Body.String(), "context_length_exceeded") ||
			!strings.Contains(rec.Body.String(), " or more") {
			t.Errorf("%s: %d %.200s", name, rec.Code, rec.Body)
		}
		if most := uint64(12 * len(body)); cost > most {
			t.Errorf("%s: %d bytes allocated for a request of %d", name, cost, len(body))
		}
	}
}

func allocatedBytes(f func()) uint64 {
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	f()
	runtime.ReadMemStats(&after)
	return after.TotalAlloc - before.TotalAlloc
}

// TestPromptOfLongestTokensFits checks that a prompt that fits is accepted even if it consists of
// the longest tokens.
func TestPromptOfLongestTokensFits(t *testing.T) {
	w := newTestGateway(t, generateAtOnce("God did.", finishStop))
	tok, longest := testTokenizer(), ""
	for id := range tok.Vocab() {
		if text := tok.Token(uint32(id)); !tok.Special(uint32(id)) && len(text) > len(longest) &&
			len(tok.Encode(strings.Repeat(text, 3), false)) == 3 {
			longest = text
		}
	}
	rec := w.post("/v1/completions", fmt.Sprintf(`{"model":"kjv","prompt":%q,"seed":0}`, strings.Repeat(longest, 1000)))
	if rec.Code != http.StatusOK {
		t.Errorf("1000 times %q: %d %s", longest, rec.Code, rec.Body)
	}
	rec = w.post("/v1/completions", fmt.Sprintf(`{"model":"kjv","prompt":%q,"seed":0}`, strings.Repeat(longest, 1100)))
	if rec.Code != http.StatusBadRequest {
		t.Errorf("1100 times %q: %d %s", longest, rec.Code, rec.Body)
	}
}

// gatedBody blocks at its end until a gate opens.
type gatedBody struct {
	io.Reader
	gate <-chan struct{}
}

func (b gatedBody) Read(p []byte) (int, error) {
	n, err := b.Reader.Read(p)
	if err == io.EOF {
		<-b.gate
	}
	return n, err
}

// TestBodyMemoryBudget checks that bodies reserve memory as they grow, that requests beyond the
// budget get 503 with Retry-After, and that memory is reused.
func TestBodyMemoryBudget(t *testing.T) {
	later := clock.New()
	w := newTestGateway(t, generateAtOnce("God did.", finishStop), func(cfg *gateway.Config) {
		cfg.BodyBytes, cfg.Runtime = 1<<20, later
	})
	server := httptest.NewServer(w)
	defer server.Close()
	gate := make(chan struct{})
	post := func(body io.Reader) int {
		res, err := http.Post(server.URL+"/v1/completions", "application/json", body) // chunked: no declared length
		if err != nil {
			t.Error(err)
			return 0
		}
		defer res.Body.Close()
		if res.StatusCode == http.StatusServiceUnavailable && res.Header.Get("Retry-After") == "" {
			t.Error("no Retry-After")
		}
		return res.StatusCode
	}
	small := func() io.Reader { return strings.NewReader(`{"model":"kjv","prompt":"a","seed":0}`) }
	held := make(chan int, 2)
	for range 2 {
		go func() { held <- post(gatedBody{strings.NewReader(strings.Repeat(" ", 400<<10)), gate}) }()
	}
	room := `troupe_gateway_body_bytes`
	testkit.Until(t, "the bodies fill 1 MiB", func() bool { return w.metric(room) == "1.048576e+06" })
	postAndWait := func(body io.Reader) int {
		answered := make(chan int)
		go func() { answered <- post(body) }()
		later.Await(1) // the body waits for memory
		later.Advance(bodyMemoryWait)
		return <-answered
	}
	if got := postAndWait(small()); got != http.StatusServiceUnavailable {
		t.Errorf("with the budget used up: %d, want 503", got)
	}
	if got := postAndWait(strings.NewReader(strings.Repeat(" ", 2<<20))); got != http.StatusServiceUnavailable {
		t.Errorf("body larger than the budget: %d, want 503", got)
	}
	close(gate)
	for range 2 {
		if got := <-held; got != http.StatusBadRequest {
			t.Errorf("bodies that held the memory: %d, want 400", got)
		}
	}
	if got := post(small()); got != http.StatusOK {
		t.Errorf("request after the others: %d", got)
	}
	if got := w.metric(room); got != "0" {
		t.Errorf("%s is %s after all requests, want 0", room, got)
	}
}

// TestMemoryReleasedAfterFlood checks that the heap returns to its size after many large prompts,
// refused and served.
func TestMemoryReleasedAfterFlood(t *testing.T) {
	w := newTestGateway(t, generateAtOnce("God did.", finishStop))
	server := httptest.NewServer(w)
	defer server.Close()
	long := `{"model":"kjv","prompt":"` + strings.Repeat("a ", 1<<19) + `"}`
	fits := `{"model":"kjv","prompt":"` + strings.Repeat("a", 300) + `","seed":0}`
	flood := func(n int) {
		var all sync.WaitGroup
		for range n {
			all.Go(func() {
				for _, body := range []string{long, fits, `{"model":"kjv","messages":` + long} {
					res, err := http.Post(server.URL+"/v1/completions", "application/json", strings.NewReader(body))
					if err != nil {
						t.Error(err)
						return
					}
					_, _ = io.Copy(io.Discard, res.Body)
					_ = res.Body.Close()
				}
			})
		}
		all.Wait()
		http.DefaultClient.CloseIdleConnections()
	}
	flood(2) // allocate caches and pools
	base := heapBytes()
	flood(16)
	if now := heapBytes(); now > base+8<<20 {
		t.Errorf("heap is %d MiB after the flood, was %d MiB before", now>>20, base>>20)
	}
	if got := w.metric("troupe_gateway_body_bytes"); got != "0" {
		t.Errorf("%s bytes are still held", got)
	}
}

func heapBytes() uint64 {
	var m runtime.MemStats
	runtime.GC()
	runtime.GC() // also empties pools
	runtime.ReadMemStats(&m)
	return m.HeapAlloc
}

// TestTokenizingStopsOnDisconnect checks that tokenizing stops when the client has left.
func TestTokenizingStopsOnDisconnect(t *testing.T) {
	w := newTestGateway(t, noOutput)
	ctx, leave := context.WithCancel(t.Context())
	leave()
	if _, err := w.EncodePrefix(ctx, "kjv", strings.Repeat("ab", 5000), nil); !errors.Is(err, context.Canceled) {
		t.Errorf("%v, want context.Canceled", err)
	}
}
