package main

import (
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/nats-io/nats-server/v2/server"
	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
	"github.com/nats-io/nats.go/micro"

	"troupe/testkit"
)

// occupiedAddr returns an address with a listener.
func occupiedAddr(t *testing.T) string {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { l.Close() })
	return l.Addr().String()
}

// natsAt starts a NATS server and returns its address and a connection to it.
func natsAt(t *testing.T, password string) (string, *nats.Conn) {
	t.Helper()
	s, err := server.NewServer(&server.Options{
		Host: "127.0.0.1", Port: server.RANDOM_PORT, NoSigs: true,
		JetStream: true, StoreDir: t.TempDir(), Authorization: password,
	})
	if err != nil {
		t.Fatal(err)
	}
	go s.Start()
	if !s.ReadyForConnections(time.Minute) {
		t.Fatal("NATS server not ready")
	}
	t.Cleanup(s.Shutdown)
	conn, err := nats.Connect("", nats.InProcessServer(s), nats.Token(password))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(conn.Close)
	return s.Addr().String(), conn
}

// TestJoinOrServeNATS checks that a node joins a cluster at the default NATS port, and moves on
// from anything else.
func TestJoinOrServeNATS(t *testing.T) {
	for name, tc := range map[string]struct {
		usual  func(t *testing.T) string
		joined bool
		note   string
	}{
		"free": {func(t *testing.T) string { return "127.0.0.1:0" }, false, ""},
		"a node's service": {func(t *testing.T) string {
			addr, conn := natsAt(t, "")
			if _, err := micro.AddService(conn, micro.Config{Name: "troupe", Version: "0.0.0"}); err != nil {
				t.Fatal(err)
			}
			return addr
		}, true, "Joined the cluster"},
		"a cluster without nodes": {func(t *testing.T) string {
			addr, conn := natsAt(t, "")
			js, err := jetstream.New(conn)
			if err != nil {
				t.Fatal(err)
			}
			if _, err := js.CreateKeyValue(t.Context(), jetstream.KeyValueConfig{Bucket: membersBucket}); err != nil {
				t.Fatal(err)
			}
			return addr
		}, true, "Joined the cluster"},
		"unrelated NATS": {func(t *testing.T) string {
			addr, conn := natsAt(t, "")
			if _, err := micro.AddService(conn, micro.Config{Name: "other", Version: "0.0.0"}); err != nil {
				t.Fatal(err)
			}
			return addr
		}, false, "is in use, so NATS is on 127.0.0.1:"},
		"NATS with a password": {func(t *testing.T) string {
			addr, _ := natsAt(t, "secret")
			return addr
		}, false, "refuses this node: nats: Authorization Violation"},
		"no NATS": {occupiedAddr, false, "is in use, so NATS is on 127.0.0.1:"},
	} {
		t.Run(name, func(t *testing.T) {
			usual := tc.usual(t)
			s := settings{Options: Options{HTTP: "127.0.0.1:0", NATSListen: usual}}
			if err := s.pickAddresses(t.Context(), nil); err != nil {
				t.Fatal(err)
			}
			if tc.joined != (s.Join == "nats://"+usual && s.NATSListen == "") {
				t.Errorf("joined %q, listens on %q", s.Join, s.NATSListen)
			}
			if notes := strings.Join(s.notes, "\n"); !strings.Contains(notes, tc.note) ||
				tc.note == "" && notes != "" {
				t.Errorf("notes: %q", notes)
			}
			if !tc.joined && tc.note != "" && s.NATSListen == usual {
				t.Errorf("listens on %s, which is in use", s.NATSListen)
			}
		})
	}
}

// TestRoutesDoNotJoin checks that a node with --nats-routes does not join a cluster at the default
// port, but serves NATS on the next one.
func TestRoutesDoNotJoin(t *testing.T) {
	usual, conn := natsAt(t, "")
	if _, err := micro.AddService(conn, micro.Config{Name: "troupe", Version: "0.0.0"}); err != nil {
		t.Fatal(err)
	}
	s := settings{
		Options: Options{
			HTTP:              "127.0.0.1:0",
			NATSListen:        usual,
			NATSRoutes:        "nats://127.0.0.1:1",
			NATSClusterListen: "127.0.0.1:0",
		},
	}
	if err := s.pickAddresses(t.Context(), nil); err != nil || s.Join != "" || s.NATSListen == usual {
		t.Errorf("joined %q, listens on %q, %v", s.Join, s.NATSListen, err)
	}
}

// TestExplicitAddressesDoNotMove checks that a default address moves to a free port, and one that
// is set does not.
func TestExplicitAddressesDoNotMove(t *testing.T) {
	taken := occupiedAddr(t)
	s := settings{
		Options: Options{
			HTTP:              taken,
			NATSListen:        "127.0.0.1:0",
			NATSRoutes:        "nats://a:1",
			NATSClusterListen: taken,
		},
	}
	if err := s.pickAddresses(t.Context(), nil); err != nil {
		t.Fatal(err)
	}
	if s.HTTP == taken || s.NATSClusterListen == taken || s.Join != "" || len(s.notes) != 2 {
		t.Errorf("%+v", s)
	}
	for flag, o := range map[string]Options{
		"--http": {HTTP: taken}, "--nats-listen": {NATSListen: taken},
		"--nats-cluster-listen": {NATSClusterListen: taken},
		"--cluster-listen":      {ClusterListen: taken}, "--data-listen": {DataListen: taken},
	} {
		s := settings{Options: o.withDefaults(Options{HTTP: "127.0.0.1:0", NATSListen: "127.0.0.1:0"}), given: o}
		if err := s.pickAddresses(t.Context(), nil); err == nil ||
			!strings.Contains(err.Error(), "choose another address with "+flag) {
			t.Errorf("%s: %v", flag, err)
		}
	}
}

// TestEachNodeHasOwnDataDir checks that each node of a machine has its own name and data folder,
// and keeps them.
func TestEachNodeHasOwnDataDir(t *testing.T) {
	t.Setenv("XDG_DATA_HOME", t.TempDir())
	var names, ids []string
	var locks []*os.File
	claim := func() {
		t.Helper()
		s := resolved(t)
		lock, err := s.lockDataDir()
		if err != nil {
			t.Fatal(err)
		}
		id, err := instance(s.Data)
		if err != nil {
			t.Fatal(err)
		}
		if filepath.Base(s.Data) != s.Name {
			t.Errorf("node %s has data folder %s", s.Name, s.Data)
		}
		t.Cleanup(func() { lock.Close() }) // the reference keeps the file from being finalized
		names, ids, locks = append(names, s.Name), append(ids, id), append(locks, lock)
	}
	claim()
	claim()
	claim()
	first := machineName()
	if names[0] != first || names[1] != first+"-2" || names[2] != first+"-3" || ids[0] == ids[1] ||
		len(ids[0]) != 16 {
		t.Errorf("%v, %v", names, ids)
	}
	locks[1].Close()
	claim()
	if names[3] != names[1] || ids[3] != ids[1] {
		t.Errorf("after a restart the second node is %s, %s", names[3], ids[3])
	}
	s := resolved(t, "--name", first)
	if _, err := s.lockDataDir(); err == nil ||
		!strings.Contains(err.Error(), "is in use by a running node") {
		t.Errorf("with --name: %v", err)
	}
}

// TestConcurrentNodesPickDifferentPorts checks that nodes that start at the same time pick
// different ports.
func TestConcurrentNodesPickDifferentPorts(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	usual := l.Addr().String()
	if err := l.Close(); err != nil {
		t.Fatal(err)
	}
	picked := map[string]bool{}
	for range 3 {
		s := settings{Options: Options{HTTP: usual, NATSListen: "127.0.0.1:0"}}
		if err := s.pickAddresses(t.Context(), nil); err != nil {
			t.Fatal(err)
		}
		defer s.httpListener.Close()
		if picked[s.HTTP] {
			t.Errorf("%s picked twice", s.HTTP)
		}
		picked[s.HTTP] = true
	}
}

// TestQuickstartTakesFreePorts checks that the example sets no ports, so that it starts where the
// default ports are in use.
func TestQuickstartTakesFreePorts(t *testing.T) {
	s := resolved(t, "--config", filepath.Join(testkit.Root(), "examples", "quickstart.yaml"))
	if o := s.given; o.HTTP != "" || o.NATSListen != "" {
		t.Errorf("http %q and nats_listen %q are fixed in examples/quickstart.yaml", o.HTTP, o.NATSListen)
	}
}
