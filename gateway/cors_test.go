package gateway_test

import (
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"troupe/gateway"
)

const (
	chatOrigin = "https://chat.example"
	evilOrigin = "http://evil.example"
)

// sendAsBrowser sends a request over a socket with a browser's headers.
func sendAsBrowser(t *testing.T, server *httptest.Server, method, path, body string, headers ...string) *http.Response {
	t.Helper()
	r, err := http.NewRequest(method, server.URL+path, strings.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	for i := 0; i < len(headers); i += 2 {
		if headers[i] == "Host" {
			r.Host = headers[i+1]
		}
		r.Header.Set(headers[i], headers[i+1])
	}
	res, err := server.Client().Do(r)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = res.Body.Close() })
	return res
}

// TestCrossOriginRequestsRefused checks that pages of other origins cannot make a browser use a
// node on loopback, unless their origin is listed. Programs and the node's own pages can use it.
func TestCrossOriginRequestsRefused(t *testing.T) {
	w := newTestGateway(t, generateAtOnce("God did.", finishStop),
		func(cfg *gateway.Config) { cfg.Origins = []string{chatOrigin} })
	server := httptest.NewServer(w.AllowHosts([]string{"gpu1"}, w))
	defer server.Close()
	const load, complete = "/v1/load_lora_adapter", "/v1/completions"
	const adapter = `{"lora_name":"a","lora_path":"/a","load_inplace":true}`
	const prompt = `{"model":"kjv","prompt":"a","seed":0}`
	own, port := server.URL, server.URL[strings.LastIndex(server.URL, ":"):]
	for _, tc := range []struct {
		path, body, headers string // header: value, separated by |
		want                int
	}{
		// as curl sends it
		{complete, prompt, "Content-Type: application/x-www-form-urlencoded", 200},
		{complete, prompt, "", 200},
		{load, adapter, "Content-Type: application/json; charset=utf-8", 200},
		{load, adapter, "Content-Type: application/x-www-form-urlencoded", 415},
		{load, adapter, "Content-Type: text/plain", 415},
		{load, adapter, "", 415},
		{"/v1/unload_lora_adapter", `{"lora_name":"a"}`, "Content-Type: text/plain", 415},
		// from a page of another origin
		{load, adapter, "Content-Type: text/plain|Origin: " + evilOrigin, 403},
		{load, adapter, "Content-Type: application/json|Origin: " + evilOrigin, 403},
		{complete, prompt, "Content-Type: text/plain|Origin: " + evilOrigin, 403},
		{complete, prompt, "Content-Type: text/plain|Origin: null", 403},
		{complete, prompt, "Content-Type: application/json|Origin: " + evilOrigin + "|Sec-Fetch-Site: cross-site", 403},
		{complete, prompt, "Content-Type: text/plain|Sec-Fetch-Site: cross-site", 403},
		{complete, prompt, "Content-Type: application/json|Origin: http://127.0.0.1:1|Sec-Fetch-Site: same-site", 403},
		{complete, prompt, "Content-Type: application/json|Origin: https://chat.example.evil.example", 403},
		{complete, prompt, "Content-Type: application/json|Origin: http://chat.example", 403},
		// from a page after DNS rebinding
		{complete, prompt, "Host: evil.example|Origin: http://evil.example|Content-Type: application/json", 403},
		{load, adapter, "Host: evil.example" + port + "|Content-Type: application/json", 403},
		{"/tree", "", "Host: evil.example", 403},
		{"/metrics", "", "Host: evil.example", 403},
		{"/ready", "", "Host: localhost.evil.example", 403},
		{"/ready", "", "Host: 127.0.0.1.evil.example", 403},
		// names of this node
		{"/ready", "", "Host: localhost" + port, 200},
		{"/ready", "", "Host: LOCALHOST.", 200},
		{"/ready", "", "Host: [::1]" + port, 200},
		{"/ready", "", "Host: 192.0.2.7", 200},
		{"/ready", "", "Host: gpu1" + port, 200},
		// from allowed pages
		{complete, prompt, "Content-Type: application/json|Origin: " + own + "|Sec-Fetch-Site: same-origin", 200},
		{complete, prompt, "Content-Type: application/json|Origin: " + chatOrigin + "|Sec-Fetch-Site: cross-site", 200},
		{complete, prompt, "Content-Type: text/plain|Origin: " + chatOrigin, 415},
	} {
		method, headers := http.MethodPost, []string(nil)
		if tc.body == "" {
			method = http.MethodGet
		}
		for h := range strings.SplitSeq(tc.headers, "|") {
			if name, value, ok := strings.Cut(h, ": "); ok {
				headers = append(headers, name, value)
			}
		}
		res := sendAsBrowser(t, server, method, tc.path, tc.body, headers...)
		if res.StatusCode != tc.want {
			t.Errorf("%s %s %s: %d, want %d", method, tc.path, tc.headers, res.StatusCode, tc.want)
		}
		if res.Header.Get("X-Content-Type-Options") != "nosniff" && tc.want != 403 {
			t.Errorf("%s %s: no nosniff header", method, tc.path)
		}
		if allowed := res.Header.Get("Access-Control-Allow-Origin"); allowed != "" &&
			!strings.Contains(tc.headers, "Origin: "+chatOrigin+"|") &&
			!strings.HasSuffix(tc.headers, "Origin: "+chatOrigin) {
			t.Errorf("%s %s %s: pages of %s may read the answer", method, tc.path, tc.headers, allowed)
		}
	}
}

// TestCORSPreflight checks that a preflight request of a listed origin needs no key and allows the
// headers of OpenAI clients.
func TestCORSPreflight(t *testing.T) {
	keys := openKeys(t, "- {name: ann, key: "+anyModel+"}\n")
	w := newTestGateway(t, generateAtOnce("God did.", finishStop),
		func(cfg *gateway.Config) { cfg.Keys, cfg.Origins = keys, []string{chatOrigin} })
	server := httptest.NewServer(w)
	defer server.Close()
	for origin, want := range map[string]string{chatOrigin: chatOrigin, evilOrigin: ""} {
		res := sendAsBrowser(t, server, http.MethodOptions, "/v1/chat/completions", "", "Origin", origin,
			"Access-Control-Request-Method", "POST", "Access-Control-Request-Headers",
			"authorization,content-type,x-stainless-lang")
		if got := res.Header.Get("Access-Control-Allow-Origin"); got != want {
			t.Errorf("%s: allowed origin %q", origin, got)
		}
		if allowed := res.Header.Get("Access-Control-Allow-Headers"); (want != "") != strings.Contains(allowed,
			"authorization") {
			t.Errorf("%s: allowed headers %q", origin, allowed)
		}
	}
	res := sendAsBrowser(t, server, http.MethodPost, "/v1/completions", `{"model":"kjv","prompt":"a","seed":0}`,
		"Origin", chatOrigin, "Content-Type", "application/json", "Authorization", "Bearer "+anyModel)
	if res.StatusCode != http.StatusOK || res.Header.Get("Access-Control-Allow-Origin") != chatOrigin {
		t.Errorf("%s %v", res.Status, res.Header)
	}
	res = sendAsBrowser(t, server, http.MethodPost, "/v1/completions", "{}", "Origin", chatOrigin)
	if res.StatusCode != http.StatusUnauthorized {
		t.Errorf("without a key: %s", res.Status)
	}
}
