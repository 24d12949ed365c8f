package main

import (
	"errors"
	"net"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/nats-io/nats-server/v2/server"
	"github.com/rogpeppe/go-internal/testscript"
	"github.com/rs/zerolog"

	"troupe/cluster/security"
	"troupe/testkit"
)

func TestMain(m *testing.M) {
	testscript.Main(m, map[string]func(){"troupe": main})
}

// TestScripts runs the scripts in testdata, which use the binary as an operator does.
func TestScripts(t *testing.T) {
	testscript.Run(t, testscript.Params{
		Dir: "testdata", // a node that starts although it should not runs until the deadline of go test
		Setup: func(env *testscript.Env) error {
			env.Setenv("HOME", env.WorkDir)
			env.Setenv("MODEL", testkit.Model())
			env.Setenv("EXAMPLES", filepath.Join(testkit.Root(), "examples"))
			env.Setenv("GORACE", "atexit_sleep_ms=0") // the race detector delays every exit by a second
			return nil
		},
		Cmds: map[string]func(*testscript.TestScript, bool, []string){
			"status": status, "taken": taken, "unused": unused, "held": held, "nats": natsServer,
			"users": natsUsers, "secured": securedServer, "gpus": fakeGPUs(t),
		},
	})
}

// status CODE COMMAND ARGS... runs a command that must exit with CODE.
func status(ts *testscript.TestScript, _ bool, args []string) {
	err := ts.Exec(args[1], args[2:]...)
	code := 0
	if exit := (*exec.ExitError)(nil); errors.As(err, &exit) {
		code = exit.ExitCode()
	}
	if strconv.Itoa(code) != args[0] {
		ts.Fatalf("%v: status %d, not %s", args[1:], code, args[0])
	}
}

// taken ADDR PORT sets variables to an address with a listener.
func taken(ts *testscript.TestScript, _ bool, args []string) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	ts.Check(err)
	ts.Defer(func() { l.Close() })
	_, port, _ := net.SplitHostPort(l.Addr().String())
	ts.Setenv(args[0], l.Addr().String())
	ts.Setenv(args[1], port)
}

// unused ADDR sets a variable to an address without a listener.
func unused(ts *testscript.TestScript, _ bool, args []string) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	ts.Check(err)
	ts.Setenv(args[0], l.Addr().String())
	ts.Check(l.Close())
}

// held DIR locks a data folder as a running node does.
func held(ts *testscript.TestScript, _ bool, args []string) {
	lock, err := lockData(ts.MkAbs(args[0]))
	ts.Check(err)
	ts.Defer(func() { lock.Close() })
}

// nats URL starts a NATS server without nodes.
func natsServer(ts *testscript.TestScript, _ bool, args []string) {
	startNATS(ts, args[0], &server.Options{})
}

// users ADDR starts a NATS server with two users: anna, with a password, and one with an nkey.
func natsUsers(ts *testscript.TestScript, _ bool, args []string) {
	startNATS(ts, args[0], &server.Options{
		Users: []*server.User{{Username: "anna", Password: "s3cret"}},
		Nkeys: []*server.NkeyUser{{Nkey: "UB5OSBERG7CGMIKZRXMLA2YNMZAXDT22QTJUKUASAYUI66LMTZGN3RMG"}},
	})
	ts.Setenv(args[0], strings.TrimPrefix(ts.Getenv(args[0]), "nats://"))
}

// secured URL CERT KEY CA starts a NATS server that requires client certificates.
func securedServer(ts *testscript.TestScript, _ bool, args []string) {
	node, err := security.Load(security.Files{Cert: ts.MkAbs(args[1]), Key: ts.MkAbs(args[2]), CA: ts.MkAbs(args[3])},
		zerolog.Nop())
	ts.Check(err)
	startNATS(ts, args[0], &server.Options{TLSConfig: node.Server(), TLS: true, TLSVerify: true, TLSTimeout: 10})
}

func startNATS(ts *testscript.TestScript, url string, opts *server.Options) {
	opts.Host, opts.Port, opts.NoSigs = "127.0.0.1", server.RANDOM_PORT, true
	s, err := server.NewServer(opts)
	ts.Check(err)
	go s.Start()
	if !s.ReadyForConnections(time.Minute) {
		ts.Fatalf("NATS server not ready")
	}
	ts.Defer(s.Shutdown)
	ts.Setenv(url, s.ClientURL())
}
