package web_test

import (
	"bufio"
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"troupe/gateway/web"
)

// testTimeout bounds the wait for an expected state, which a server without limits never reaches.
const testTimeout = 20 * time.Second

// testHandler reads the body at /read and /last, refuses it at /refuse, and ignores it elsewhere. At
// /last it also closes the connection.
var testHandler = http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
	switch r.URL.Path {
	case "/read":
		n, err := io.Copy(io.Discard, r.Body)
		if err != nil {
			w.WriteHeader(http.StatusRequestTimeout)
		}
		fmt.Fprintf(w, "read %d", n)
	case "/last":
		web.CloseAfter(w, r)
		n, _ := io.Copy(io.Discard, r.Body) // the client sends all of it
		fmt.Fprintf(w, "read %d", n)
	case "/refuse":
		w.WriteHeader(http.StatusUnauthorized)
	default:
		fmt.Fprint(w, "fine")
	}
})

const missingBody = "Host: a\r\nContent-Length: 9\r\n\r\n"

// TestMissingBodyEndsConnection checks that a declared body that is never sent ends the connection
// with a response, whatever the handler does.
func TestMissingBodyEndsConnection(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		network, _ := startServer(t, web.Limits{BodyStallTimeout: 50 * time.Millisecond}, testHandler)
		for request, want := range map[string]string{
			"POST /read HTTP/1.1\r\n" + missingBody:                                                 "408",
			"POST /read HTTP/1.1\r\n" + missingBody + "abc":                                         "408",
			"POST /read HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nabc":          "408",
			"POST /refuse HTTP/1.1\r\n" + missingBody:                                               "401",
			"POST /refuse HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n":                "401",
			"POST /refuse HTTP/1.1\r\nHost: a\r\nContent-Length: 999999999\r\n\r\n":                 "401",
			"POST /refuse HTTP/1.1\r\nHost: a\r\nContent-Length: 9\r\nExpect: 100-continue\r\n\r\n": "401",
			"GET /ignore HTTP/1.1\r\n" + missingBody:                                                "200",
		} {
			if got := network.exchange(t, request); !strings.HasPrefix(got, "HTTP/1.1 "+want) ||
				!strings.Contains(got, "Connection: close") {
				t.Errorf("%q: %q, want status %s and a closed connection", request, got, want)
			}
		}
	})
}

// TestSlowBodyTimesOut checks that single bytes do not keep a request alive, even though no pause
// exceeds the stall timeout.
func TestSlowBodyTimesOut(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		limits := web.Limits{BodyStallTimeout: 200 * time.Millisecond, MinBodyRate: 1 << 10}
		network, _ := startServer(t, limits, testHandler)
		c := network.dial(t)
		fmt.Fprint(c, "POST /read HTTP/1.1\r\nHost: a\r\nContent-Length: 100000\r\n\r\n")
		answered := make(chan string, 1)
		go func() {
			line, _ := bufio.NewReader(c).ReadString('\n') // without a line, the test fails
			answered <- line
		}()
		tick := time.NewTicker(20 * time.Millisecond)
		defer tick.Stop()
		for sent := 0; ; sent++ {
			select {
			case line := <-answered:
				if !strings.Contains(line, "408") {
					t.Errorf("%q, want status 408", line)
				}
				return
			case <-tick.C:
				if sent == 500 {
					t.Fatalf("the server is still waiting after %d bytes", sent)
				}
				_, _ = c.Write([]byte("x")) // fails once the server has closed the connection
			}
		}
	})
}

// TestReadBodyKeepsConnection checks that the connection stays open if the body was read to its
// end.
func TestReadBodyKeepsConnection(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		network, _ := startServer(t, web.Limits{}, testHandler)
		c := network.dial(t)
		in := bufio.NewReader(c)
		for i := range 3 {
			fmt.Fprint(c, "POST /read HTTP/1.1\r\nHost: a\r\nContent-Length: 3\r\n\r\nabc")
			res, err := http.ReadResponse(in, nil)
			if err != nil || res.StatusCode != http.StatusOK || res.Close {
				t.Fatalf("request %d: %+v, %v", i, res, err)
			}
			if text, err := io.ReadAll(res.Body); err != nil || string(text) != "read 3" {
				t.Errorf("request %d: %q, %v", i, text, err)
			}
		}
	})
}

// TestCloseAfterReadBody checks that CloseAfter closes the connection even if the body was read to
// its end.
func TestCloseAfterReadBody(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		network, _ := startServer(t, web.Limits{}, testHandler)
		got := network.exchange(t, "POST /last HTTP/1.1\r\nHost: a\r\nContent-Length: 3\r\n\r\nabc")
		if !strings.Contains(got, "Connection: close") || !strings.HasSuffix(got, "read 3") {
			t.Errorf("response is %q", got)
		}
	})
}

// TestBodyDeadlinesDoNotLimitResponse checks that the deadlines of a body end with it, and that the
// handler still notices a disconnect.
func TestBodyDeadlinesDoNotLimitResponse(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		gate, left := make(chan struct{}), make(chan error, 1)
		network, _ := startServer(
			t,
			web.Limits{BodyStallTimeout: 50 * time.Millisecond, HeaderTimeout: 50 * time.Millisecond},
			http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				_, _ = io.ReadAll(r.Body)
				select {
				case <-r.Context().Done():
					left <- errors.New("canceled while the client is there")
				case <-time.After(300 * time.Millisecond): // several times the deadlines
				}
				close(gate)
				<-r.Context().Done()
				left <- nil
			}),
		)
		c := network.dial(t)
		fmt.Fprint(c, "POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 3\r\n\r\nabc")
		<-gate
		_ = c.Close()
		if err := <-left; err != nil {
			t.Error(err)
		}
	})
}

// TestSlowHeadersTimeOut checks the timeouts of headers, and of connections before and between
// requests.
func TestSlowHeadersTimeOut(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		limits := web.Limits{HeaderTimeout: 50 * time.Millisecond, IdleTimeout: 50 * time.Millisecond}
		network, _ := startServer(t, limits, testHandler)
		for _, request := range []string{
			"", "GET / HT", "GET / HTTP/1.1\r\nHost: a\r\nX: ", "GET / HTTP/1.1\r\nHost: a\r\n\r\n",
		} {
			network.exchange(t, request)
		}
		got := network.exchange(t, "GET / HTTP/1.1\r\nHost: a\r\nX: "+strings.Repeat("x", 40<<10)+"\r\n\r\n")
		if !strings.HasPrefix(got, "HTTP/1.1 431") {
			t.Errorf("headers of 40 KiB: %q", got)
		}
	})
}

// TestClientNotReadingIsCutOff checks that a client that does not read the response is cut off.
func TestClientNotReadingIsCutOff(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ended := make(chan error, 1)
		network, _ := startServer(
			t,
			web.Limits{WriteTimeout: 50 * time.Millisecond},
			http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
				var err error
				for block := make([]byte, 1<<20); err == nil; {
					_, err = w.Write(block)
				}
				ended <- err
			}),
		)
		fmt.Fprint(network.dial(t), "GET / HTTP/1.1\r\nHost: a\r\n\r\n")
		select {
		case <-ended:
		case <-time.After(testTimeout):
			t.Error("the handler is still writing")
		}
	})
}

// startTLSServer starts a server with TLS and HTTP/2. It returns its network and a client that
// trusts it.
func startTLSServer(t *testing.T, limits web.Limits) (*pipes, *http.Client) {
	t.Helper()
	donor := httptest.NewTLSServer(nil) // for its certificate
	donor.Close()
	network := newPipes()
	cfg := &tls.Config{Certificates: donor.TLS.Certificates, NextProtos: []string{"h2", "http/1.1"}}
	serveListener(t, tls.NewListener(web.Listen(network, limits), cfg), limits, testHandler)
	transport := donor.Client().Transport.(*http.Transport).Clone()
	transport.ForceAttemptHTTP2 = true
	transport.DialContext = func(context.Context, string, string) (net.Conn, error) { return network.dial(t), nil }
	t.Cleanup(transport.CloseIdleConnections)
	return network, &http.Client{Transport: transport, Timeout: testTimeout}
}

// TestStalledHandshakeTimesOut checks that a client that stalls during the TLS handshake is cut
// off.
func TestStalledHandshakeTimesOut(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		network, _ := startTLSServer(t, web.Limits{HeaderTimeout: 50 * time.Millisecond})
		for _, hello := range []string{"", "\x16\x03\x01\x02\x00\x01"} {
			network.exchange(t, hello)
		}
	})
}

// TestStalledBodyEndsOnlyItsStream checks that a stalled body over HTTP/2 ends only its own stream.
func TestStalledBodyEndsOnlyItsStream(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		_, client := startTLSServer(t, web.Limits{BodyStallTimeout: 50 * time.Millisecond})
		body, more := io.Pipe()
		defer more.Close()
		r, err := http.NewRequest(http.MethodPost, "https://127.0.0.1/read", body)
		if err != nil {
			t.Fatal(err)
		}
		res, err := client.Do(r)
		if err != nil {
			t.Fatal(err)
		}
		if res.ProtoMajor != 2 || res.StatusCode != http.StatusRequestTimeout {
			t.Errorf("%s %s, want HTTP/2 and status 408", res.Proto, res.Status)
		}
		_ = res.Body.Close()
		res, err = client.Post("https://127.0.0.1/read", "", strings.NewReader("abc"))
		if err != nil || res.StatusCode != http.StatusOK {
			t.Fatalf("the next request: %v, %v", res, err)
		}
		_ = res.Body.Close()
	})
}
