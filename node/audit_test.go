package node_test

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/rs/zerolog"

	"troupe/cluster/security"
	"troupe/gateway/apikey"
	"troupe/internal/audit"
	"troupe/node"
)

// logged is a log that can be read while it is being written.
type logged struct {
	mu sync.Mutex
	bytes.Buffer
}

func (r *logged) Write(p []byte) (int, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.Buffer.Write(p)
}

func (r *logged) String() string {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.Buffer.String()
}

const (
	adminKey = "sk-ADMIN-SECRET-0123456789"
	plainKey = "sk-PLAIN-SECRET-0123456789"
)

// audited is a node with keys, NATS users and an audit log, together with everything that the node
// logs and publishes.
type audited struct {
	*node.Node
	keys, users, file string
	log, events       *logged
	nats              *nats.Conn
	seeds             []string
}

func startAudited(t *testing.T) *audited {
	t.Helper()
	dir := t.TempDir()
	a := &audited{
		keys: filepath.Join(dir,
			"keys.yaml"), users: filepath.Join(dir, "users.conf"), file: filepath.Join(dir, "audit.log"),
		log: &logged{}, events: &logged{},
	}
	putFile(t, a.keys,
		fmt.Sprintf("keys:\n- {name: ann, admin: true, key: %s}\n- {name: kim, key: %s}\n", adminKey, plainKey))
	keys, err := apikey.Open(a.keys, zerolog.New(a.log))
	if err != nil {
		t.Fatal(err)
	}
	var public []string
	for _, name := range []string{"node", "anna", "guest"} {
		nkey, err := security.NewNkey(filepath.Join(dir, name))
		if err != nil {
			t.Fatal(err)
		}
		seed, err := os.ReadFile(filepath.Join(dir, name))
		if err != nil {
			t.Fatal(err)
		}
		public, a.seeds = append(public, nkey), append(a.seeds, strings.TrimSpace(string(seed)))
	}
	putFile(t, a.users, fmt.Sprintf(`authorization { users = [ {nkey: %s}, {nkey: %s}
		{nkey: %s, permissions: {publish: "troupe.v1.infer.kjv", subscribe: "_INBOX.>"}} ] }`,
		public[0], public[1], public[2]))
	a.Node = start(t, func(cfg *node.Config) {
		cfg.Keys, cfg.AuditLog, cfg.NATSUsers = keys, a.file, a.users
		cfg.Login = security.Login{Nkey: filepath.Join(dir, "node")}
		cfg.Log = zerolog.New(a.log).Level(zerolog.DebugLevel)
	})
	a.nats = a.connect(t, filepath.Join(dir, "anna"))
	if _, err := a.nats.Subscribe("troupe.v1.events.>",
		func(m *nats.Msg) { fmt.Fprintf(a.events, "%s %s\n", m.Subject, m.Data) }); err != nil {
		t.Fatal(err)
	}
	if err := a.nats.Flush(); err != nil {
		t.Fatal(err)
	}
	return a
}

func putFile(t *testing.T, file, text string) {
	t.Helper()
	if err := errors.Join(os.WriteFile(file+".new", []byte(text), 0o600), os.Rename(file+".new", file)); err != nil {
		t.Fatal(err)
	}
}

func (a *audited) connect(t *testing.T, seed string) *nats.Conn {
	t.Helper()
	login, err := security.Login{Nkey: seed}.Options()
	if err != nil {
		t.Fatal(err)
	}
	conn, err := nats.Connect(a.NATSURL(), login...)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(conn.Close)
	return conn
}

func (a *audited) http(t *testing.T, method, path, key, body string, headers ...string) int {
	t.Helper()
	r, err := http.NewRequest(method, "http://"+a.HTTPAddr()+path, strings.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	if key != "" {
		r.Header.Set("Authorization", key)
	}
	r.Header.Set("Content-Type", "application/json")
	for i := 0; i < len(headers); i += 2 {
		r.Header.Set(headers[i], headers[i+1])
	}
	res, err := http.DefaultClient.Do(r)
	if err != nil {
		t.Fatal(err)
	}
	defer res.Body.Close()
	_, _ = io.Copy(io.Discard, res.Body)
	return res.StatusCode
}

func (a *audited) entries(t *testing.T) (all []audit.Entry) {
	t.Helper()
	text, err := os.ReadFile(a.file)
	if err != nil {
		t.Fatal(err)
	}
	for line := range strings.Lines(string(text)) {
		var e audit.Entry
		if err := json.Unmarshal([]byte(line), &e); err != nil {
			t.Fatalf("%q: %v", line, err)
		}
		all = append(all, e)
	}
	return all
}

// TestAudit checks that changes and denied requests over HTTP and NATS produce entries and events
// with actor, action and result, and that reads and inference do not.
func TestAudit(t *testing.T) {
	a := startAudited(t)
	request(t, a.nats, "troupe.v1.models.list", "")
	request(t, a.nats, "troupe.v1.models.scale", `{"name":"kjv","replicas":2}`)
	request(t, a.nats, "troupe.v1.models.delete", `{"name":"none"}`)
	request(t, a.nats, "troupe.v1.models.deploy", `{"deployment":`)
	if got := a.http(t, "POST", "/v1/completions", "Bearer "+plainKey,
		`{"model":"kjv","prompt":"a","max_tokens":1}`); got != 200 {
		t.Errorf("inference: %d", got)
	}
	if got := a.http(t, "POST", "/v1/completions", "Bearer sk-unknown", `{}`); got != 401 {
		t.Errorf("unknown key: %d", got)
	}
	if got := a.http(t, "POST", "/v1/unload_lora_adapter", "Bearer "+plainKey, `{"lora_name":"none"}`); got != 403 {
		t.Errorf("no admin: %d", got)
	}
	if got := a.http(t, "POST", "/v1/unload_lora_adapter", "Bearer "+adminKey, `{"lora_name":"none"}`); got != 404 {
		t.Errorf("no such adapter: %d", got)
	}
	if _, err := nats.Connect(a.NATSURL()); !errors.Is(err, nats.ErrAuthorization) {
		t.Errorf("no login over NATS: %v", err)
	}
	guest := a.connect(t, filepath.Join(filepath.Dir(a.file), "guest"))
	if err := errors.Join(guest.Publish("troupe.v1.models.delete", []byte(`{"name":"kjv"}`)),
		guest.Flush()); err != nil {
		t.Fatal(err)
	}
	putFile(t, a.keys, fmt.Sprintf("keys:\n- {name: ann, admin: true, key: %s}\n", adminKey))
	if got := a.http(t, "GET", "/v1/models", "Bearer "+plainKey, ""); got != 401 {
		t.Errorf("a removed key: %d", got)
	}

	want := []audit.Entry{
		{Via: "node", Who: "node:test", Action: "node.started", Object: "test", Result: audit.Done},
		{Via: "node", Who: "node:test", Action: "member.joined", Object: "test", Result: audit.Done},
		{
			Via:     "nats",
			Who:     "unknown",
			Action:  "models.scale",
			Subject: "troupe.v1.models.scale",
			Object:  "name=kjv replicas=2",
			Result:  audit.Done,
		},
		{
			Via:     "nats",
			Who:     "unknown",
			Action:  "models.delete",
			Subject: "troupe.v1.models.delete",
			Object:  "name=none",
			Result:  audit.Failed,
			Reason:  "REASON_NOT_FOUND",
		},
		{
			Via:     "nats",
			Who:     "unknown",
			Action:  "models.deploy",
			Subject: "troupe.v1.models.deploy",
			Result:  audit.Failed,
			Reason:  "REASON_INVALID_ARGUMENT",
		},
		{
			Via:    "http",
			Who:    "unknown",
			Action: "http.unauthorized",
			Object: "POST /v1/completions",
			Result: audit.Refused,
			Reason: "Unauthorized",
		},
		{
			Via:    "http",
			Who:    "unknown",
			Action: "http.unauthorized",
			Object: "GET /v1/models",
			Result: audit.Refused,
			Reason: "Unauthorized",
		},
		{
			Via:    "http",
			Who:    "key:kim",
			Action: "http.forbidden",
			Object: "POST /v1/unload_lora_adapter",
			Result: audit.Refused,
			Reason: "Forbidden",
		},
		{
			Via:    "http",
			Who:    "key:ann",
			Action: "http.unload_lora_adapter",
			Object: "adapter=none path=",
			Result: audit.Failed,
			Reason: "Not Found",
		},
		{Via: "file", Who: "unknown", Action: "reload", Object: "API keys", Result: audit.Done},
	}
	waitFor(t, "all entries", func() bool {
		got := a.entries(t)
		for _, w := range want {
			if !slices.ContainsFunc(got, func(e audit.Entry) bool {
				return e.Node == "test" && time.Since(e.Time) < time.Hour && e.Via == w.Via && e.Who == w.Who &&
					e.Action == w.Action &&
					e.Subject == w.Subject &&
					e.Object == w.Object &&
					e.Result == w.Result &&
					e.Reason == w.Reason &&
					(e.Via != "http" || e.Address != "" && e.Request != "")
			}) {
				return false
			}
		}
		refused := func(what string) bool {
			return slices.ContainsFunc(got, func(e audit.Entry) bool {
				return e.Action == "nats.refused" && e.Result == audit.Refused &&
					strings.HasPrefix(e.Address, "127.0.0.1:") &&
					strings.Contains(e.Reason, what)
			})
		}
		return refused("authentication error") && refused(`Publish Violation`)
	})
	waitFor(t, "their events", func() bool {
		text := a.events.String()
		return strings.Contains(text, "troupe.v1.events.audit.models.scale ") &&
			strings.Contains(text, "troupe.v1.events.audit.http.unauthorized ") &&
			strings.Contains(text, "troupe.v1.events.audit.nats.refused ")
	})
	for _, e := range a.entries(t) {
		if strings.Contains(e.Action, "list") || strings.Contains(e.Action, "completions") ||
			strings.Contains(e.Action, "infer") {
			t.Errorf("unexpected entry %+v", e)
		}
	}
}

// TestNoSecrets checks that logs at level debug, audit entries and events contain no prompt and no
// key, regardless of the error that a request causes.
func TestNoSecrets(t *testing.T) {
	a := startAudited(t)
	const prompt = "PROMPT-OF-A-CLIENT"
	long := strings.Repeat(prompt+" ", 2000)
	for _, body := range []string{
		`{"model":"kjv","prompt":"` + prompt + `","max_tokens":2}`,
		`{"model":"kjv","prompt":"` + prompt + `","max_tokens":2,"stream":true,"echo":true,"stop":"` + prompt + `"}`,
		`{"model":"kjv","prompt":` + prompt, `{"model":"kjv","prompt":{"` + prompt + `":1}}`,
		`{"model":"kjv","` + prompt + `":1,"prompt":"a","max_tokens":1}`,
		`{"model":"kjv","prompt":"` + long + `"}`, `{"model":"kjv","prompt":"a","max_tokens":"` + prompt + `"}`,
		`{"model":"kjv","messages":[{"role":"` + prompt + `","content":"` + prompt + `"}],"max_tokens":2}`,
		`{"model":"kjv","messages":[{"role":"user","content":"` + prompt + `"}],"max_tokens":2}`,
		`{"lora_name":"` + prompt, prompt,
	} {
		for _, path := range []string{"/v1/completions", "/v1/chat/completions", "/v1/embeddings",
			"/v1/load_lora_adapter"} {
			for _, key := range []string{"Bearer " + adminKey, "Bearer " + plainKey, "Bearer sk-WRONG-SECRET",
				"Basic eDpzay1XUk9ORy1TRUNSRVQ=", "", "sk-WRONG-SECRET"} {
				a.http(t, "POST", path, key, body, "X-Troupe-Priority", prompt)
				a.http(t, "POST", path, key, body)
			}
		}
		for _, subject := range []string{
			"infer.kjv", "kv.pin", "kv.restore", "kv.unpin", "models.deploy", "models.scale",
			"adapters.register", "replicas.migrate", "gpus.quarantine", "node.test.kv",
		} {
			if strings.Contains(body, "lora") {
				continue
			}
			inbox := a.nats.NewInbox()
			done, err := a.nats.SubscribeSync(inbox)
			if err != nil {
				t.Fatal(err)
			}
			if err := a.nats.PublishRequest("troupe.v1."+subject, inbox, []byte(body)); err != nil {
				t.Fatal(err)
			}
			for {
				m, err := done.NextMsg(time.Minute)
				if err != nil {
					t.Fatalf("%s %s: %v", subject, body, err)
				}
				if subject != "infer.kjv" || len(m.Data) == 0 {
					break
				}
			}
			_ = done.Unsubscribe()
		}
	}
	request(t, a.nats, "troupe.v1.kv.pin", `{"model":"kjv","prompt":"`+strings.Repeat(prompt+" ", 8)+`"}`)
	request(t, a.nats, "troupe.v1.gpus.quarantine", `{"node":"test","name":"gpu-7","detail":"`+prompt+`"}`)
	waitFor(t, "an event of a denied login", func() bool { // denials beyond a rate are counted, not published
		for _, wrong := range []nats.Option{nats.UserInfo("root", "WRONG-SECRET"), nats.Token("WRONG-SECRET")} {
			if _, err := nats.Connect(a.NATSURL(), wrong); err == nil {
				t.Error("a login without credentials is accepted")
			}
		}
		return strings.Contains(a.events.String(), "audit.nats.refused")
	})
	putFile(t, a.keys, "keys:\n- {name: ann, kye: "+adminKey+"}\n")
	a.http(t, "GET", "/v1/models", "Bearer "+adminKey, "")
	putFile(t, a.users, "authorization { users = [ {user: root, password: WRONG-SECRET ] }")
	waitFor(t, "the broken users file to be logged",
		func() bool { return strings.Contains(a.log.String(), "loading changed NATS users failed") })
	waitFor(t, "the broken keys file to be logged",
		func() bool { return strings.Contains(a.log.String(), "changed API keys rejected") })
	written, err := os.ReadFile(a.file)
	if err != nil {
		t.Fatal(err)
	}
	for what, text := range map[string]string{"log": a.log.String(), "events": a.events.String(),
		"audit": string(written)} {
		for _, secret := range append([]string{prompt, "SECRET"}, a.seeds...) {
			if i := strings.Index(text, secret); i >= 0 {
				t.Errorf("%s has %s: …%s…", what, secret, text[max(0, i-300):min(len(text), i+100)])
			}
		}
		if len(text) < 500 {
			t.Errorf("%s is too short: %q", what, text)
		}
	}
}
