package natsd

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
	"github.com/nats-io/nkeys"
	"github.com/rs/zerolog"

	"troupe/testkit"
)

// start starts a server. The servers, their elections and their disks are real, since the package is
// about nothing else.
func start(t *testing.T, change func(*Config)) (*Server, error) {
	t.Helper()
	cfg := Config{Listen: "127.0.0.1:0", StoreDir: t.TempDir(), Name: "one", Log: zerolog.Nop()}
	if change != nil {
		change(&cfg)
	}
	s, err := Start(t.Context(), cfg)
	if err == nil {
		t.Cleanup(s.Stop)
	}
	return s, err
}

func TestStandaloneServer(t *testing.T) {
	s, err := start(t, nil)
	if err != nil {
		t.Fatal(err)
	}
	if s.Peers() != 0 {
		t.Errorf("%d peers", s.Peers())
	}
	conn, err := nats.Connect(s.URL(), ClientOptions("test", zerolog.Nop())...)
	if err != nil {
		t.Fatal(err)
	}
	conn.Close()
}

// TestOfflineServer checks that a server that does not listen serves its process.
func TestOfflineServer(t *testing.T) {
	s, err := start(t, func(c *Config) { c.Offline = true })
	if err != nil {
		t.Fatal(err)
	}
	conn, err := s.Connect()
	if err != nil {
		t.Fatal(err)
	}
	conn.Close()
}

func TestNkeyUsers(t *testing.T) {
	user, err := nkeys.CreateUser()
	if err != nil {
		t.Fatal(err)
	}
	public, _ := user.PublicKey()
	users := filepath.Join(t.TempDir(), "users.conf")
	if err := os.WriteFile(users, []byte("authorization { users = [ { nkey: "+public+" } ] }"), 0o600); err != nil {
		t.Fatal(err)
	}
	s, err := start(t, func(c *Config) { c.UsersFile = users })
	if err != nil {
		t.Fatal(err)
	}
	if conn, err := nats.Connect(s.URL()); err == nil {
		conn.Close()
		t.Error("a client without a key connected")
	}
	conn, err := s.Connect(nats.Nkey(public, user.Sign))
	if err != nil {
		t.Fatal(err)
	}
	conn.Close()
}

// addresses returns free loopback addresses.
func addresses(t *testing.T, n int) []string {
	t.Helper()
	var all []string
	for range n {
		l, err := net.Listen("tcp", "127.0.0.1:0")
		if err != nil {
			t.Fatal(err)
		}
		defer l.Close()
		all = append(all, l.Addr().String())
	}
	return all
}

// startThree starts three servers at once. Each has the routes of all but those for which omit
// returns true.
func startThree(t *testing.T, omit func(server, route int) bool, change ...func(server int, cfg *Config)) []*Server {
	t.Helper()
	at := addresses(t, 3)
	servers, errs := make([]*Server, 3), make([]error, 3)
	var starting sync.WaitGroup
	for i := range servers {
		cfg := Config{
			Listen:        "127.0.0.1:0",
			StoreDir:      t.TempDir(),
			Name:          fmt.Sprint("n", i),
			ClusterListen: at[i],
			SharedProcess: true,
			Log:           zerolog.Nop(),
		}
		for j, a := range at {
			if !omit(i, j) {
				cfg.Routes = append(cfg.Routes, "nats://"+a)
			}
		}
		for _, c := range change {
			c(i, &cfg)
		}
		starting.Go(func() { servers[i], errs[i] = Start(t.Context(), cfg) })
	}
	starting.Wait()
	if err := errors.Join(errs...); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		for _, s := range servers {
			s.Stop()
		}
	})
	return servers
}

func TestCluster(t *testing.T) {
	for name, omit := range map[string]func(server, route int) bool{
		"all routes":    func(int, int) bool { return false },
		"but their own": func(server, route int) bool { return server == route },
	} {
		t.Run(name, func(t *testing.T) {
			servers := startThree(t, omit)
			testkit.Until(t, "all are connected", func() bool {
				return servers[0].Peers() == 2 && servers[1].Peers() == 2 && servers[2].Peers() == 2
			})
			checkValuesSurvive(t, servers)
		})
	}
}

// checkValuesSurvive stores a value on three servers, stops one and writes to the others.
func checkValuesSurvive(t *testing.T, servers []*Server) {
	t.Helper()
	conn, err := servers[0].Connect()
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	js, err := jetstream.New(conn)
	if err != nil {
		t.Fatal(err)
	}
	var kv jetstream.KeyValue
	testkit.Until(t, "a bucket on three servers", func() bool {
		kv, err = js.CreateKeyValue(t.Context(), jetstream.KeyValueConfig{Bucket: "b", Replicas: 3})
		return err == nil
	})
	if _, err := kv.Put(t.Context(), "k", []byte("v")); err != nil {
		t.Fatal(err)
	}
	servers[2].Stop()
	testkit.Until(t, "a write to the remaining servers", func() bool {
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		_, err := kv.Put(ctx, "k", []byte("w"))
		return err == nil
	})
}

func TestInvalidConfig(t *testing.T) {
	for name, c := range map[string]struct {
		change func(*Config)
		want   string
	}{
		"address in use": {func(c *Config) { c.Listen = busy(t) }, "--nats-listen"},
		"routes without an address": {func(c *Config) {
			c.Routes = []string{"nats://127.0.0.1:6222"}
		}, "--nats-cluster-listen"},
		"no routes": {func(c *Config) { c.ClusterListen = "127.0.0.1:0" }, "--nats-routes"},
		"only its own route": {func(c *Config) {
			c.ClusterListen = addresses(t, 1)[0]
			c.Routes = []string{"nats://" + c.ClusterListen}
		}, "--nats-routes"},
		"not a route": {func(c *Config) {
			c.ClusterListen, c.Routes = "127.0.0.1:0", []string{"elsewhere"}
		}, `"elsewhere"`},
		"others are missing": {func(c *Config) {
			at := addresses(t, 3)
			c.ClusterListen, c.FormTimeout = at[0], 300*time.Millisecond
			c.Routes = []string{"nats://" + at[1], "nats://" + at[2]}
		}, "1 of 3 are connected, 2 are needed"},
	} {
		t.Run(name, func(t *testing.T) {
			if _, err := start(t, c.change); err == nil || !strings.Contains(err.Error(), c.want) {
				t.Errorf("got %v, want %q in it", err, c.want)
			}
		})
	}
}

func busy(t *testing.T) string {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = l.Close() })
	return l.Addr().String()
}
