package security_test

import (
	"net/url"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/nats-io/nats-server/v2/server"
	"github.com/nats-io/nats.go"

	"troupe/cluster/security"
	"troupe/testkit"
)

// natsWith starts the NATS server of a node, with routes to others.
func natsWith(t *testing.T, node *security.Identity, routes ...*url.URL) *server.Server {
	t.Helper()
	s, err := server.NewServer(&server.Options{
		Host: "127.0.0.1", Port: server.RANDOM_PORT, NoSigs: true, TLSConfig: node.Server(), TLS: true, TLSVerify: true,
		TLSTimeout: 10,
		Cluster: server.ClusterOpts{
			Name:       "t",
			Host:       "127.0.0.1",
			Port:       server.RANDOM_PORT,
			TLSConfig:  node.Peer(),
			TLSTimeout: 10,
		}, Routes: routes,
	})
	if err != nil {
		t.Fatal(err)
	}
	go s.Start()
	t.Cleanup(s.Shutdown)
	if !s.ReadyForConnections(10 * time.Second) {
		t.Fatal("not ready")
	}
	return s
}

// TestNATS: servers form a cluster with node certificates, clients need one of the same CA, and
// rotated files are used.
func TestNATS(t *testing.T) {
	dir, elsewhere := authority(t, "a", "b", "c"), authority(t, "c")
	a := natsWith(t, load(t, dir, "a"))
	route := &url.URL{Scheme: "nats", Host: a.ClusterAddr().String()}
	b := natsWith(t, load(t, dir, "b"), route)
	stranger := natsWith(t, load(t, elsewhere, "c"), route)
	connect := func(s *server.Server, identity *security.Identity) (*nats.Conn, error) {
		opts, err := security.Login{TLS: identity}.Options()
		if err != nil {
			t.Fatal(err)
		}
		return nats.Connect(s.ClientURL(), opts...)
	}
	at := func(s *server.Server) *nats.Conn {
		t.Helper()
		conn, err := connect(s, load(t, dir, "c"))
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(conn.Close)
		return conn
	}
	from, to := at(a), at(b)
	if _, err := from.Subscribe("ask", func(m *nats.Msg) { _ = m.Respond(nil) }); err != nil {
		t.Fatal(err)
	}
	testkit.Until(t, "a and b form a cluster", func() bool {
		_, err := to.Request("ask", nil, time.Second)
		return err == nil
	})
	if stranger.NumRoutes() != 0 {
		t.Error("a server with another CA joined the cluster")
	}
	if _, err := connect(a, load(t, elsewhere, "c")); err == nil {
		t.Error("a client with another CA is accepted")
	}
	if _, err := nats.Connect(a.ClientURL(), nats.RootCAs(filepath.Join(dir, "ca.crt"))); err == nil {
		t.Error("a client without a certificate is accepted")
	}
	before, err := from.TLSConnectionState()
	if err != nil {
		t.Fatal(err)
	}
	ca, _, err := security.OpenAuthority(dir)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := ca.Issue("a", nil); err != nil {
		t.Fatal(err)
	}
	after, err := at(a).TLSConnectionState()
	if err != nil {
		t.Fatal(err)
	}
	if after.PeerCertificates[0].Equal(before.PeerCertificates[0]) {
		t.Error("the new certificate is not used")
	}
}

// TestRemedy: the advice about a failed connection names the options to set.
func TestRemedy(t *testing.T) {
	dir := authority(t, "a")
	plain, err := server.NewServer(
		&server.Options{Host: "127.0.0.1", Port: server.RANDOM_PORT, NoSigs: true, Authorization: "secret"},
	)
	if err != nil {
		t.Fatal(err)
	}
	go plain.Start()
	t.Cleanup(plain.Shutdown)
	if !plain.ReadyForConnections(10 * time.Second) {
		t.Fatal("not ready")
	}
	a := load(t, dir, "a")
	for name, tc := range map[string]struct {
		url  string
		as   security.Login
		want string
	}{
		"no certificate": {natsWith(t, a).ClientURL(), security.Login{}, "set --tls-ca"},
		"no TLS there":   {plain.ClientURL(), security.Login{TLS: a}, "the server has no TLS"},
		"unknown":        {plain.ClientURL(), security.Login{}, "set --nats-nkey or --nats-creds"},
		"no server":      {"nats://127.0.0.1:1", security.Login{}, "otherwise"},
	} {
		opts, err := tc.as.Options()
		if err != nil {
			t.Fatal(err)
		}
		_, err = nats.Connect(tc.url, opts...)
		if got := security.Remedy(err, "otherwise"); err == nil || !strings.Contains(got, tc.want) {
			t.Errorf("%s: %v: %q", name, err, got)
		}
	}
}
