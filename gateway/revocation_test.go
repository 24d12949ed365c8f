package gateway_test

import (
	"bufio"
	"context"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/rs/zerolog"

	"troupe/gateway"
	"troupe/gateway/apikey"
	"troupe/messages"
	"troupe/testkit"
	"troupe/testkit/clock"
)

// TestRevokedKeyEndsStream checks that a running stream ends with an error a second after the
// removal of its key from the file, and that streams of other keys continue.
func TestRevokedKeyEndsStream(t *testing.T) {
	file := filepath.Join(t.TempDir(), "keys.yaml")
	put := func(entries string) {
		t.Helper()
		if err := os.WriteFile(file+".new", []byte("keys:\n"+entries), 0o600); err != nil {
			t.Fatal(err)
		}
		if err := os.Rename(file+".new", file); err != nil {
			t.Fatal(err)
		}
	}
	ann, kim := fmt.Sprintf("- {name: ann, key: %s}\n", anyModel), fmt.Sprintf("- {name: kim, key: %s}\n", kjvOnly)
	put(ann + kim)
	keys, err := apikey.Open(file, zerolog.Nop())
	if err != nil {
		t.Fatal(err)
	}
	finish, later := make(chan struct{}), clock.New()
	w := newTestGateway(t, func(ctx context.Context, call *gateway.Call) {
		call.Deliver(testTokenizer().Encode("God", false), nil, 0, messages.FinishReason_FINISH_REASON_UNSPECIFIED)
		select {
		case <-finish:
			call.Deliver(testTokenizer().Encode(" did.", false), nil, 0, messages.FinishReason_FINISH_REASON_STOP)
		case <-ctx.Done():
		}
	}, func(cfg *gateway.Config) { cfg.Keys, cfg.Runtime = keys, later })
	server := httptest.NewServer(w) // a real one, since a stream must end on the wire
	defer server.Close()
	stream := func(key string) *bufio.Scanner {
		t.Helper()
		r, err := http.NewRequestWithContext(t.Context(), http.MethodPost, server.URL+"/v1/completions",
			strings.NewReader(`{"model":"kjv","prompt":"a","seed":0,"stream":true}`))
		if err != nil {
			t.Fatal(err)
		}
		r.Header.Set("Authorization", "Bearer "+key)
		res, err := http.DefaultClient.Do(r)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { res.Body.Close() })
		lines := bufio.NewScanner(res.Body)
		if !lines.Scan() || !strings.Contains(lines.Text(), "God") {
			t.Fatalf("%d %q", res.StatusCode, lines.Text())
		}
		return lines
	}
	revoked, kept := stream(kjvOnly), stream(anyModel)
	put(ann)
	later.Advance(time.Second)
	rest := make(chan string, 1)
	go func() {
		var text strings.Builder
		for revoked.Scan() {
			text.WriteString(revoked.Text() + "\n")
		}
		rest <- text.String()
	}()
	testkit.Until(t, "the stream of the revoked key ends", func() bool { return len(rest) == 1 })
	if text := <-rest; !strings.Contains(text, `"code":"invalid_api_key"`) || strings.Contains(text, "[DONE]") {
		t.Errorf("stream ends with %q", text)
	}
	testkit.Until(t, "its session is closed", func() bool { _, closed := w.sessions(); return closed == 1 })
	close(finish)
	text := ""
	for kept.Scan() {
		text += kept.Text() + "\n"
	}
	if !strings.Contains(text, " did.") || !strings.Contains(text, "[DONE]") {
		t.Errorf("another key's stream: %q", text)
	}
}
