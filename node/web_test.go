package node_test

import (
	"bytes"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/rs/zerolog"

	"troupe/gateway/apikey"
	"troupe/gateway/web"
	"troupe/node"
)

const (
	webUserKey  = "sk-user-0123456789"
	webAdminKey = "sk-admin-0123456789"
)

// withWebKeys gives a node two keys.
func withWebKeys(t *testing.T) func(*node.Config) {
	file := filepath.Join(t.TempDir(), "keys.yaml")
	content := fmt.Sprintf("keys:\n- {name: user, key: %s}\n- {name: admin, key: %s, admin: true}\n", webUserKey,
		webAdminKey)
	if err := os.WriteFile(file, []byte(content), 0o600); err != nil {
		t.Fatal(err)
	}
	keys, err := apikey.Open(file, zerolog.Nop())
	if err != nil {
		t.Fatal(err)
	}
	return func(c *node.Config) { c.Keys = keys }
}

// httpRequest sends a request with headers given in pairs, and returns status and body.
func httpRequest(t *testing.T, method, url, body string, headers ...string) (int, string) {
	t.Helper()
	r, err := http.NewRequest(method, url, strings.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	for i := 0; i < len(headers); i += 2 {
		if headers[i] == "Host" {
			r.Host = headers[i+1]
		}
		r.Header.Set(headers[i], headers[i+1])
	}
	res, err := http.DefaultClient.Do(r)
	if err != nil {
		t.Fatal(err)
	}
	defer res.Body.Close()
	all, err := io.ReadAll(res.Body)
	if err != nil {
		t.Fatal(err)
	}
	return res.StatusCode, string(all)
}

// TestNodeOnLoopback checks that a node without keys serves local programs, but not web pages in
// local browsers.
func TestNodeOnLoopback(t *testing.T) {
	n := start(t, func(c *node.Config) { c.Advertise = "" })
	base := "http://" + n.HTTPAddr()
	machine, _ := os.Hostname()
	const complete = `{"model":"kjv","prompt":"In the beginning","max_tokens":2}`
	for _, tc := range []struct {
		method, path, body string
		headers            []string
		want               int
	}{
		{"POST", "/v1/completions", complete, []string{"Content-Type", "application/x-www-form-urlencoded"}, 200},
		{"POST", "/v1/completions", complete,
			[]string{"Content-Type", "text/plain", "Origin", "http://evil.example"}, 403},
		{"POST", "/v1/load_lora_adapter", `{"lora_name":"a","lora_path":"/a"}`,
			[]string{"Content-Type", "text/plain", "Origin", "http://evil.example"}, 403},
		{"POST", "/v1/load_lora_adapter", `{"lora_name":"a","lora_path":"/a"}`,
			[]string{"Content-Type", "application/json", "Host", "evil.example"}, 403},
		{"GET", "/tree", "", []string{"Host", "evil.example"}, 403},
		{"GET", "/metrics", "", []string{"Host", "evil.example"}, 403},
		{"GET", "/tree", "", nil, 200},
		{"GET", "/metrics", "", nil, 200},
		{"GET", "/ready", "", []string{"Host", "localhost:8000"}, 200},
		{"GET", "/ready", "", []string{"Host", machine}, 200},
	} {
		if got, body := httpRequest(t, tc.method, base+tc.path, tc.body, tc.headers...); got != tc.want {
			t.Errorf("%s %s %v: %d, want %d: %.300s", tc.method, tc.path, tc.headers, got, tc.want, body)
		}
	}
	if _, body := httpRequest(t, "GET", base+"/v1/models", ""); !strings.Contains(body, `"root":"kjv"`) {
		t.Errorf("the models expose more than a name: %s", body)
	}
}

// TestNodeWithKeys checks that only admins may use endpoints that concern all models. A listener
// for scrapers must need no key on loopback and an admin's key elsewhere.
func TestNodeWithKeys(t *testing.T) {
	n := start(t, func(c *node.Config) { withWebKeys(t)(c); c.WebConfig.Metrics = "127.0.0.1:0" })
	open := start(t, func(c *node.Config) { withWebKeys(t)(c); c.WebConfig.Metrics = "0.0.0.0:0" })
	main, scrape := "http://"+n.HTTPAddr(), "http://"+n.MetricsAddr()
	_, port, _ := net.SplitHostPort(open.MetricsAddr())
	beyond := "http://127.0.0.1:" + port
	for _, tc := range []struct {
		url, key string
		want     int
	}{
		{main + "/metrics", "", 401}, {main + "/metrics", webUserKey, 403}, {main + "/metrics", webAdminKey, 200},
		{main + "/tree", "", 401}, {main + "/tree", webUserKey, 403}, {main + "/tree", webAdminKey, 200},
		{main + "/ready", "", 200}, {main + "/health", "", 200},
		{scrape + "/metrics", "", 200}, {scrape + "/ready", "", 200}, {scrape + "/health", "", 200},
		{scrape + "/tree", "", 404}, {scrape + "/tree", webAdminKey, 404}, {scrape + "/v1/models", webAdminKey, 404},
		{beyond + "/metrics", "", 401}, {beyond + "/metrics", webUserKey, 403},
		{beyond + "/metrics", webAdminKey, 200}, {beyond + "/v1/models", webAdminKey, 404},
	} {
		if got, body := httpRequest(t, "GET", tc.url, "", "Authorization", "Bearer "+tc.key); got != tc.want {
			t.Errorf("%s %s: %d, want %d: %.300s", tc.url, tc.key, got, tc.want, body)
		}
	}
	if got, _ := httpRequest(t, "GET", scrape+"/metrics", "", "Host", "evil.example"); got != http.StatusForbidden {
		t.Errorf("scraping under a foreign name: %d", got)
	}
	if got, _ := httpRequest(t, "GET", main+"/ready", "", "Host", "api.example"); got != http.StatusOK {
		t.Errorf("with keys, behind a proxy with a name of its own: %d", got)
	}
}

// TestConnectionFlood checks that probes, scrapers and NATS are served while clients exceed the
// connection limits, some with requests that never arrive, and that the connections are freed
// afterwards.
func TestConnectionFlood(t *testing.T) {
	n := start(t, func(c *node.Config) {
		withWebKeys(t)(c)
		c.WebConfig.Metrics = "127.0.0.1:0"
		c.WebConfig.Limits = web.Limits{
			MaxConnections:   40,
			MaxPerAddress:    40,
			MaxOverflow:      8,
			BodyStallTimeout: 200 * time.Millisecond,
			OverflowTimeout:  time.Hour,
		}
	})
	var held []net.Conn
	for i := range 300 {
		c, err := net.Dial("tcp", n.HTTPAddr())
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = c.Close() })
		if held = append(held, c); i%2 == 0 {
			continue // sends nothing
		}
		fmt.Fprintf(c,
			"POST /v1/completions HTTP/1.1\r\nHost: a\r\nAuthorization: Bearer %s\r\nContent-Length: 1000000\r\n\r\n",
			webUserKey)
	}
	gauge := func(name string) string {
		_, all := httpRequest(t, "GET", "http://"+n.MetricsAddr()+"/metrics", "")
		for line := range strings.Lines(all) {
			if value, ok := strings.CutPrefix(line, name+" "); ok {
				return strings.TrimSpace(value)
			}
		}
		return ""
	}
	client := &http.Client{Transport: &http.Transport{DisableKeepAlives: true}}
	for _, path := range []string{"/health", "/ready"} {
		res, err := client.Get("http://" + n.HTTPAddr() + path)
		if err != nil {
			t.Fatal(err)
		}
		if _ = res.Body.Close(); res.StatusCode != http.StatusOK {
			t.Errorf("%s: %s", path, res.Status)
		}
	}
	conn, err := nats.Connect(n.NATSURL())
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	if _, err := conn.Request("troupe.v1.models.list", []byte("{}"), time.Minute); err != nil {
		t.Errorf("NATS: %v", err)
	}
	waitFor(t, "connections beyond the limit to be refused", func() bool {
		got := gauge("troupe_http_connections_refused_total")
		return got != "0" && got != ""
	})
	for _, c := range held {
		_ = c.Close()
	}
	waitFor(t, "the connections to be closed", func() bool { return gauge("troupe_http_connections") == "0" })
	waitFor(t, "the memory of bodies to be free", func() bool { return gauge("troupe_gateway_body_bytes") == "0" })
	r, err := http.NewRequest("POST", "http://"+n.HTTPAddr()+"/v1/completions",
		bytes.NewReader([]byte(`{"model":"kjv","prompt":"a","max_tokens":2}`)))
	if err != nil {
		t.Fatal(err)
	}
	r.Header.Set("Authorization", "Bearer "+webUserKey)
	res, err := client.Do(r)
	if err != nil || res.StatusCode != http.StatusOK {
		t.Fatalf("after the flood: %v, %v", res, err)
	}
	_ = res.Body.Close()
}
