package service_test

import (
	"encoding/json"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/micro"
	"github.com/rs/zerolog"

	"troupe/cluster/natsd"
	"troupe/cluster/reply"
	"troupe/cluster/service"
	"troupe/testkit"
)

// connect returns a connection to a new server. It is a real one, since the answers are compared with
// those of nats.go.
func connect(t *testing.T) *nats.Conn {
	t.Helper()
	server, err := natsd.Start(
		t.Context(),
		natsd.Config{Listen: "127.0.0.1:0", StoreDir: t.TempDir(), Name: "test", Log: zerolog.Nop()},
	)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(server.Stop)
	conn, err := server.Connect()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(conn.Close)
	return conn
}

func start(t *testing.T, conn *nats.Conn) *service.Service {
	t.Helper()
	s, err := service.Start(conn, service.Config{
		Name: "ours", Version: "1.2.3", Description: "a service", Metadata: map[string]string{"node": "a"},
		Guard: reply.NewGuard(reply.Rule{}, nil, zerolog.Nop()), Log: zerolog.Nop(),
	})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := s.Stop(); err != nil {
			t.Error(err)
		}
	})
	return s
}

// described returns a service's answer to a verb, without the parts that differ between services.
func described(t *testing.T, conn *nats.Conn, verb, name string) map[string]any {
	t.Helper()
	m, err := conn.Request("$SRV."+verb+"."+name, nil, time.Minute)
	if err != nil {
		t.Fatal(err)
	}
	var got map[string]any
	if err := json.Unmarshal(m.Data, &got); err != nil {
		t.Fatalf("%s: %v", m.Data, err)
	}
	if id, _ := got["id"].(string); id == "" {
		t.Errorf("%s has no id: %s", verb, m.Data)
	} else if _, err := conn.Request("$SRV."+verb+"."+name+"."+id, nil, time.Minute); err != nil {
		t.Errorf("%s by id: %v", verb, err)
	}
	for _, varies := range []string{"id", "name", "started"} {
		if got[varies] == nil && (varies != "started" || verb == "STATS") {
			t.Errorf("%s has no %s", verb, varies)
		}
		delete(got, varies)
	}
	if endpoints, ok := got["endpoints"].([]any); ok && verb == "STATS" {
		for _, e := range endpoints {
			for _, took := range []string{"processing_time", "average_processing_time"} {
				if ns, ok := e.(map[string]any)[took].(float64); !ok || ns <= 0 {
					t.Errorf("%s is %v", took, e)
				}
				delete(e.(map[string]any), took)
			}
		}
	}
	return got
}

// TestMatchesMicro: the service describes itself exactly like one of the micro package of nats.go.
func TestMatchesMicro(t *testing.T) {
	conn := connect(t)
	s := start(t, conn)
	if err := s.Add("echo", "ours.echo", "says it again", func(r *service.Request) {
		if string(r.Data()) == "bad" {
			_ = r.Respond(
				nil, micro.WithHeaders(micro.Headers{micro.ErrorHeader: {"it is bad"}, micro.ErrorCodeHeader: {"400"}}),
			)
			return
		}
		_ = r.Respond(r.Data())
	}); err != nil {
		t.Fatal(err)
	}
	theirs, err := micro.AddService(
		conn,
		micro.Config{
			Name:        "theirs",
			Version:     "1.2.3",
			Description: "a service",
			Metadata:    map[string]string{"node": "a"},
		},
	)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = theirs.Stop() })
	if err := theirs.AddEndpoint("echo", micro.HandlerFunc(func(r micro.Request) {
		if string(r.Data()) == "bad" {
			_ = r.Error("400", "it is bad", nil)
			return
		}
		_ = r.Respond(r.Data())
	}), micro.WithEndpointSubject("ours.echo"), micro.WithEndpointQueueGroup("other"),
		micro.WithEndpointMetadata(map[string]string{"description": "says it again"})); err != nil {
		t.Fatal(err)
	}
	for _, body := range []string{"a", "bad", "b"} { // each service has its own queue group here, so both answer
		if _, err := conn.Request("ours.echo", []byte(body), time.Minute); err != nil {
			t.Fatal(err)
		}
	}
	testkit.Until(t, "all requests are counted", func() bool {
		return theirs.Stats().Endpoints[0].NumRequests == 3 && s.Stats().Endpoints[0].NumRequests == 3
	})
	for _, verb := range []string{"PING", "INFO", "STATS"} {
		got, want := described(t, conn, verb, "ours"), described(t, conn, verb, "theirs")
		if endpoints, ok := want["endpoints"].([]any); ok {
			endpoints[0].(map[string]any)["queue_group"] = micro.DefaultQueueGroup
		}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("%s: -theirs +ours:\n%s", verb, diff)
		}
	}
}

// TestQueueGroup: one of several services of the same name answers a request, and discovery finds
// all.
func TestQueueGroup(t *testing.T) {
	conn := connect(t)
	answered := make(chan struct{}, 10)
	for range 2 {
		if err := start(t, conn).Add("e", "a.subject", "", func(r *service.Request) {
			answered <- struct{}{}
			_ = r.Respond(nil)
		}); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := conn.Request("a.subject", nil, time.Minute); err != nil {
		t.Fatal(err)
	}
	inbox := conn.NewInbox()
	sub, err := conn.SubscribeSync(inbox)
	if err != nil {
		t.Fatal(err)
	}
	if err := conn.PublishRequest("$SRV.PING", inbox, nil); err != nil {
		t.Fatal(err)
	}
	for range 2 {
		if _, err := sub.NextMsg(time.Minute); err != nil {
			t.Error(err)
		}
	}
	if len(answered) != 1 {
		t.Errorf("%d services answered", len(answered))
	}
}

// TestPanicIsAnswered: a handler that panics answers with an error, and the service keeps running.
// After Stop nothing answers.
func TestPanicIsAnswered(t *testing.T) {
	conn := connect(t)
	s := start(t, conn)
	if err := s.Add("e", "a.subject", "", func(r *service.Request) { panic("a bad request") }); err != nil {
		t.Fatal(err)
	}
	for range 2 {
		if m, err := conn.Request("a.subject", nil, time.Minute); err != nil ||
			m.Header.Get(micro.ErrorCodeHeader) != "500" {
			t.Errorf("%v, %v", m, err)
		}
	}
	if err := s.Stop(); err != nil {
		t.Fatal(err)
	}
	for { // until the subscriptions are drained
		_, err := conn.Request("a.subject", nil, time.Minute)
		if errors.Is(err, nats.ErrNoResponders) {
			break
		} else if err != nil {
			t.Fatal(err)
		}
	}
}

// TestGuardRejectsReplySubjects: a request whose reply subject is not an inbox reaches no handler, neither of an
// endpoint nor of $SRV.
func TestGuardRejectsReplySubjects(t *testing.T) {
	conn := connect(t)
	s := start(t, conn)
	handled := make(chan string, 10)
	if err := s.Add("e", "a.subject", "", func(r *service.Request) {
		handled <- r.Reply()
		_ = r.Respond(nil)
	}); err != nil {
		t.Fatal(err)
	}
	heard, err := conn.SubscribeSync("forbidden.>")
	if err != nil {
		t.Fatal(err)
	}
	subjects := []string{
		"a.subject",
		"$SRV.PING",
		"$SRV.PING.ours",
		"$SRV.INFO",
		"$SRV.INFO.ours",
		"$SRV.STATS",
		"$SRV.STATS.ours",
	}
	for _, subject := range subjects {
		if err := conn.PublishRequest(subject, "forbidden.subject", nil); err != nil {
			t.Fatal(err)
		}
	}
	for _, subject := range subjects { // handled in order, after the requests above
		if _, err := conn.Request(subject, nil, time.Minute); err != nil {
			t.Errorf("%s: %v", subject, err)
		}
	}
	if reply := <-handled; !strings.HasPrefix(reply, "_INBOX.") || len(handled) != 0 {
		t.Errorf("handled a request with reply subject %s", reply)
	}
	if err := conn.Flush(); err != nil {
		t.Fatal(err)
	}
	if count, _, err := heard.Pending(); err != nil || count != 0 {
		t.Errorf("%d answers to a forbidden subject, %v", count, err)
	}
}
