package gateway_test

import (
	"bufio"
	"context"
	"fmt"
	"net"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/nats-io/nats-server/v2/server"
	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/micro"

	"troupe/gateway"
	"troupe/messages"
)

const smallRequest = `{"model":"kjv","prompt":"a"}`

// postAs sends a request with a key or from an address.
func (w *testGateway) postAs(who, body string, headers ...string) *httptest.ResponseRecorder {
	r := httptest.NewRequest(http.MethodPost, "/v1/completions", strings.NewReader(body))
	if strings.HasPrefix(who, "sk-") {
		r.Header.Set("Authorization", "Bearer "+who)
	} else {
		r.RemoteAddr = who
	}
	for i := 0; i < len(headers); i += 2 {
		r.Header.Set(headers[i], headers[i+1])
	}
	rec := httptest.NewRecorder()
	w.serve(rec, r)
	return rec
}

// TestPendingBodiesTakeNoPlace checks that requests whose bodies have not arrived take no places,
// even when there are more of them than places.
func TestPendingBodiesTakeNoPlace(t *testing.T) {
	w := newTestGateway(t, generateAtOnce("a", finishStop), func(c *gateway.Config) { c.MaxInFlight = 4 })
	s := httptest.NewServer(w)
	defer s.Close()
	for range 8 {
		conn, err := net.Dial("tcp", s.Listener.Addr().String())
		if err != nil {
			t.Fatal(err)
		}
		defer conn.Close()
		fmt.Fprintf(conn, "POST /v1/completions HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\n"+
			"Content-Length: 100\r\nExpect: 100-continue\r\n\r\n")
		line, err := bufio.NewReader(conn).ReadString('\n')
		if err != nil || !strings.HasPrefix(line, "HTTP/1.1 100") { // sent when the server reads the body
			t.Fatalf("%q %v", line, err)
		}
	}
	rec, err := http.Post(s.URL+"/v1/completions", "application/json", strings.NewReader(smallRequest))
	if err != nil {
		t.Fatal(err)
	}
	rec.Body.Close()
	if rec.StatusCode != 200 {
		t.Errorf("request with a body: %s", rec.Status)
	}
}

// TestClientGetsHalfOfPlaces checks that one client cannot take all places, and that the addresses
// of one /64 are one client.
func TestClientGetsHalfOfPlaces(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newTestGateway(t, noOutput, func(c *gateway.Config) { c.MaxInFlight = 8 })
		ask := func(i int) *httptest.ResponseRecorder {
			return w.postAs(fmt.Sprintf("[2001:db8::%x]:99", i+1), `{"model":"kjv","prompt":"a","timeout":60}`)
		}
		for i := range 4 {
			go ask(i)
		}
		synctest.Wait()
		if rec := ask(5); rec.Code != 429 || rec.Header().Get("Retry-After") != "1" ||
			!strings.Contains(rec.Body.String(), "its share") {
			t.Errorf("fifth request of one client: %d %v %s", rec.Code, rec.Header(), rec.Body)
		}
		other := make(chan int)
		go func() {
			other <- w.postAs("[2001:db8:1::1]:99", `{"model":"kjv","prompt":"a","timeout":1}`).Code
		}()
		if code := <-other; code != 504 { // it was admitted, and no session responds
			t.Errorf("another client: %d", code)
		}
		time.Sleep(time.Minute + 2*time.Second)
		if got := w.metric("troupe_gateway_requests_in_flight"); got != "0" {
			t.Errorf("%s requests in flight at the end", got)
		}
	})
}

// newLimitedGateway returns a gateway with keys that have limits.
func newLimitedGateway(t *testing.T, act sessionFunc, entries string) *testGateway {
	keys := openKeys(t, entries)
	return newTestGateway(t, act, func(c *gateway.Config) { c.Keys = keys })
}

func TestKeyRateLimits(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newLimitedGateway(t, generate(" a b c", finishStop), fmt.Sprintf(`
- {name: ann, key: %s, limits: {requests_per_minute: 2, tokens_per_minute: 100}}
- {name: kim, key: %s}
`, anyModel, kjvOnly))
		header := func(h http.Header) string {
			var all []string
			for _, name := range []string{
				"limit-requests", "remaining-requests", "reset-requests",
				"limit-tokens", "remaining-tokens", "reset-tokens",
			} {
				all = append(all, h.Get("x-ratelimit-"+name))
			}
			return strings.Join(append(all, h.Get("Retry-After")), " ")
		}
		const body = `{"model":"kjv","prompt":"a","max_tokens":8}`
		for i, tc := range []struct {
			key, body, header string
			code              int
		}{
			{anyModel, `{"model":"kjv","prompt":"a","max_tokens":200}`, "2 1 30s 100 100 0s ", 400},
			{anyModel, body, "2 0 1m0s 100 ", 200},
			{anyModel, body, "2 0 59.97s 100 ", 429},
			{kjvOnly, body, "      ", 200},
		} {
			rec := w.postAs(tc.key, tc.body)
			if got := header(rec.Header()); rec.Code != tc.code || !strings.HasPrefix(got, tc.header) {
				t.Errorf("%d: %d %s, headers %q, want %q", i, rec.Code, rec.Body, got, tc.header)
			}
			if tc.code == 429 &&
				(rec.Header().Get("Retry-After") != "30" || readResponses(t, rec)[0].Error.Type != "rate_limit_error") {
				t.Errorf("%d: %v %s", i, rec.Header(), rec.Body)
			}
		}
		models := httptest.NewRequest(http.MethodGet, "/v1/models", nil)
		models.Header.Set("Authorization", "Bearer "+anyModel)
		rec := httptest.NewRecorder()
		w.ServeHTTP(rec, models)
		if got := header(rec.Header()); !strings.HasPrefix(got, "2 0 ") {
			t.Errorf("rate limit headers of other responses: %q", got)
		}
		time.Sleep(30 * time.Second)
		if rec := w.postAs(anyModel, body); rec.Code != 200 {
			t.Errorf("after Retry-After: %d %s", rec.Code, rec.Body)
		}
		for series, want := range map[string]string{
			`requests_total{key="ann"}`: "3", `refused_total{key="ann"}`: "2",
			`requests_total{key="kim"}`: "1", `requests_in_flight{key="ann"}`: "0",
			`prompt_tokens_total{key="kim"}`: "2", `output_tokens_total{key="ann"}`: "8",
			`tokens_in_flight{key="kim"}`: "0",
		} {
			if got := w.metric("troupe_gateway_key_" + series); got != want {
				t.Errorf("%s is %q, want %s", series, got, want)
			}
		}
	})
}

func TestKeyInFlightLimits(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newLimitedGateway(t, noOutput,
			fmt.Sprintf("- {name: ann, key: %s, limits: {requests: 1, tokens: 100}}\n", anyModel))
		done := make(chan struct{})
		go func() {
			w.postAs(anyModel, `{"model":"kjv","prompt":"a","max_tokens":50,"timeout":5}`)
			close(done)
		}()
		synctest.Wait()
		if rec := w.postAs(anyModel, smallRequest); rec.Code != 429 ||
			!strings.Contains(rec.Body.String(), "its limit is 1") {
			t.Errorf("%d %s", rec.Code, rec.Body)
		}
		<-done
		rec := w.postAs(anyModel, `{"model":"kjv","prompt":"a","max_tokens":50,"n":2,"timeout":1}`)
		if rec.Code != 400 {
			t.Errorf("request for 2 x 50 tokens plus prompt: %d %s", rec.Code, rec.Body)
		}
	})
}

func TestKeyMaxPriority(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newLimitedGateway(t, generate("a", finishStop), fmt.Sprintf(
			"- {name: low, key: %s, max_priority: batch, weight: 3}\n- {name: any, key: %s}\n", anyModel, kjvOnly))
		for i, tc := range []struct {
			key, priority string
			code          int
			class         messages.PriorityClass
		}{
			{anyModel, "interactive", 403, 0},
			{anyModel, "standard", 403, 0},
			{anyModel, "batch", 200, messages.PriorityClass_PRIORITY_CLASS_BATCH},
			{anyModel, "", 200, messages.PriorityClass_PRIORITY_CLASS_BATCH},
			{kjvOnly, "", 200, messages.PriorityClass_PRIORITY_CLASS_STANDARD},
			{kjvOnly, "interactive", 200, messages.PriorityClass_PRIORITY_CLASS_INTERACTIVE},
		} {
			rec := w.postAs(tc.key, smallRequest, "X-Troupe-Priority", tc.priority)
			if rec.Code != tc.code {
				t.Errorf("%d: %d %s", i, rec.Code, rec.Body)
			}
			if tc.code == 403 {
				if !strings.Contains(rec.Body.String(), "is above batch, the highest class that API key low may use") {
					t.Errorf("%d: %s", i, rec.Body)
				}
				continue
			}
			opened, _ := w.sessions()
			seq := opened[len(opened)-1].Sequence
			client, weight := "key:low", 3.0
			if tc.key == kjvOnly {
				client, weight = "key:any", 1
			}
			if seq.GetPriority() != tc.class || seq.GetClient() != client || seq.GetWeight() != weight {
				t.Errorf("%d: class %s, client %q, weight %g", i, seq.GetPriority(), seq.GetClient(), seq.GetWeight())
			}
		}
	})
}

func TestClientAddress(t *testing.T) {
	trusted := []netip.Prefix{netip.MustParsePrefix("10.0.0.0/8"), netip.MustParsePrefix("fd00::/8")}
	for _, tc := range []struct{ remote, list, standard, want string }{
		{"192.0.2.7:99", "", "", "192.0.2.7"},
		{"192.0.2.7:99", "1.2.3.4", "", "192.0.2.7"}, // not a trusted proxy
		{"[::ffff:192.0.2.7]:99", "", "", "192.0.2.7"},
		{"[2001:db8:1:2:3:4:5:6]:99", "", "", "2001:db8:1:2::/64"},
		{"10.0.0.1:99", "", "", "10.0.0.1"},
		{"10.0.0.1:99", "6.6.6.6, 192.0.2.7", "", "192.0.2.7"},
		{"10.0.0.1:99", "6.6.6.6, 192.0.2.7, 10.9.9.9", "", "192.0.2.7"},
		{"10.0.0.1:99", "6.6.6.6, nonsense, 10.9.9.9", "", "10.0.0.1"},
		{"[fd00::1]:99", "2001:db8::1", "", "2001:db8::/64"},
		{"10.0.0.1:99", "", `for=6.6.6.6, for="[2001:db8::1]:47";proto=https, by=1;for=10.1.1.1`, "2001:db8::/64"},
		{"10.0.0.1:99", "", "for=unknown", "10.0.0.1"},
		{"10.0.0.1:99", "192.0.2.7", "for=192.0.2.7", "192.0.2.7"},
		{"10.0.0.1:99", "192.0.2.7", "for=6.6.6.6", "10.0.0.1"}, // one of them is forged
		{"10.0.0.1:99", "10.2.2.2", "", "10.0.0.1"},
	} {
		synctest.Test(t, func(t *testing.T) {
			w := newTestGateway(t, generate("a", finishStop), func(c *gateway.Config) { c.TrustedProxies = trusted })
			headers := []string{}
			if tc.list != "" {
				headers = append(headers, "X-Forwarded-For", tc.list)
			}
			if tc.standard != "" {
				headers = append(headers, "Forwarded", tc.standard)
			}
			w.postAs(tc.remote, smallRequest, headers...)
			opened, _ := w.sessions()
			if got := opened[0].Sequence.GetClient(); got != "address:"+tc.want {
				t.Errorf("%+v: %s", tc, got)
			}
		})
	}
}

// TestSlowReaderBlocksNoOtherClient checks that a client that does not read its stream blocks
// neither its session nor other clients.
func TestSlowReaderBlocksNoOtherClient(t *testing.T) {
	finished := make(chan struct{}, 1)
	w := newTestGateway(t, func(_ context.Context, call *gateway.Call) {
		ids := testTokenizer().Encode(strings.Repeat(" And God said", 100), false)
		// Deliver more than the buffers of a connection hold.
		for i := 0; len(call.Sequence.GetPrompt()) > 3 && i < 400; i++ {
			deliver(call, ids...)
		}
		call.Deliver(nil, nil, 0, finishStop)
		if len(call.Sequence.GetPrompt()) > 3 {
			finished <- struct{}{}
		}
	})
	s := httptest.NewServer(w)
	defer s.Close()
	conn, err := net.Dial("tcp", s.Listener.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	_ = conn.(*net.TCPConn).SetReadBuffer(4096)
	body := `{"model":"kjv","prompt":"In the beginning God created","stream":true,"logprobs":5}`
	fmt.Fprintf(conn,
		"POST /v1/completions HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\nContent-Length: %d\r\n\r\n%s",
		len(body), body)
	<-finished
	rec, err := http.Post(s.URL+"/v1/completions", "application/json", strings.NewReader(smallRequest))
	if err != nil {
		t.Fatal(err)
	}
	rec.Body.Close()
	if rec.StatusCode != 200 {
		t.Errorf("another client gets %s", rec.Status)
	}
}

// TestNATSRefusalHasRetryAfter checks that a temporary refusal over NATS has a Retry-After header,
// as over HTTP.
func TestNATSRefusalHasRetryAfter(t *testing.T) {
	ns, err := server.NewServer(&server.Options{Host: "127.0.0.1", Port: -1, NoLog: true, NoSigs: true})
	if err != nil {
		t.Fatal(err)
	}
	go ns.Start()
	defer ns.Shutdown()
	if !ns.ReadyForConnections(10 * time.Second) {
		t.Fatal("the NATS server did not start")
	}
	nc, err := nats.Connect(ns.ClientURL())
	if err != nil {
		t.Fatal(err)
	}
	defer nc.Close()
	began := make(chan struct{}, 9)
	w := newTestGateway(t, func(ctx context.Context, _ *gateway.Call) { began <- struct{}{}; <-ctx.Done() },
		func(c *gateway.Config) { c.MaxInFlight = 2 })
	service, err := micro.AddService(nc, micro.Config{Name: "test", Version: "1.0.0"})
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = service.Stop() }()
	handler := micro.HandlerFunc(func(r micro.Request) { w.Infer(anonymousRequest{r}) })
	if err := service.AddEndpoint("infer", handler, micro.WithEndpointSubject(gateway.InferSubject)); err != nil {
		t.Fatal(err)
	}
	inbox := nc.NewInbox()
	if err := nc.PublishRequest("troupe.v1.infer.kjv", inbox, []byte(`{"prompt":"a"}`)); err != nil {
		t.Fatal(err)
	}
	<-began
	answer, err := nc.Request("troupe.v1.infer.kjv", []byte(`{"prompt":"a"}`), 10*time.Second)
	if err != nil {
		t.Fatal(err)
	}
	if answer.Header.Get(micro.ErrorCodeHeader) != "429" || answer.Header.Get("Retry-After") != "1" {
		t.Errorf("%v %s", answer.Header, answer.Data)
	}
	if opened, _ := w.sessions(); len(opened) != 1 || opened[0].Sequence.GetClient() != "nats" {
		t.Errorf("%d calls, the first of %q", len(opened), opened[0].Sequence.GetClient())
	}
}

// anonymousRequest is a request over NATS without an account.
type anonymousRequest struct{ micro.Request }

func (anonymousRequest) Account() string { return "" }
