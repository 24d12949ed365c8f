package httpd_test

import (
	"io"
	"net"
	"net/http"
	"strings"
	"testing"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/rs/zerolog"

	"troupe/actors/supervise"
	"troupe/node/httpd"
)

// answers is a gateway whose handlers answer with their names.
type answers struct{ http.Handler }

func named(name string) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { _, _ = io.WriteString(w, name) })
}

func (answers) BusyHandler() http.Handler { return named("busy") }

func (answers) MetricsHandler(bool) http.Handler { return named("metrics") }

func (answers) AllowHosts(names []string, next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		_, _ = io.WriteString(w, strings.Join(names, ",")+" may have ")
		next.ServeHTTP(w, r)
	})
}

func config(address string) httpd.Config {
	return httpd.Config{
		Address: address, Metrics: "127.0.0.1:0", Hosts: []string{"llm.example"},
		Registry: prometheus.NewRegistry(), Log: zerolog.Nop(), Runtime: supervise.System,
	}
}

func get(t *testing.T, address, path string) (int, string) {
	t.Helper()
	res, err := http.Get("http://" + address + path)
	if err != nil {
		t.Fatal(err)
	}
	defer res.Body.Close()
	body, err := io.ReadAll(res.Body)
	if err != nil {
		t.Fatal(err)
	}
	return res.StatusCode, string(body)
}

// TestServer checks that a server answers probes until it serves, and frees its ports at the end.
func TestServer(t *testing.T) {
	s, err := httpd.Open(config("127.0.0.1:0"))
	if err != nil {
		t.Fatal(err)
	}
	for _, address := range []string{s.Address(), s.MetricsAddress()} {
		if status, _ := get(t, address, "/live"); status != http.StatusOK {
			t.Errorf("/live during the start: %d", status)
		}
		if status, _ := get(t, address, "/v1/models"); status != http.StatusServiceUnavailable {
			t.Errorf("a request during the start: %d", status)
		}
	}
	s.Serve(answers{named("client")})
	if _, body := get(t, s.Address(), "/"); !strings.HasPrefix(body, "llm.example,127.0.0.1,") ||
		!strings.HasSuffix(body, " may have client") {
		t.Error(body)
	}
	if _, body := get(t, s.MetricsAddress(), "/"); !strings.HasSuffix(body, " may have metrics") {
		t.Error(body)
	}
	s.EndKeepAlives()
	if err := s.Shutdown(); err != nil {
		t.Error(err)
	}
	s.Close()
	for _, address := range []string{s.Address(), s.MetricsAddress()} {
		checkFree(t, address)
	}
}

// TestOpenFails checks that nothing listens if one of the addresses is taken.
func TestOpenFails(t *testing.T) {
	taken, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer taken.Close()
	clients, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	cfg := config(clients.Addr().String())
	cfg.Listener, cfg.Metrics = clients, taken.Addr().String()
	if _, err := httpd.Open(cfg); err == nil || !strings.Contains(err.Error(), "--metrics-listen") {
		t.Error(err)
	}
	checkFree(t, cfg.Address)
}

func checkFree(t *testing.T, address string) {
	t.Helper()
	l, err := net.Listen("tcp", address)
	if err != nil {
		t.Fatal(err)
	}
	if err := l.Close(); err != nil {
		t.Fatal(err)
	}
}
