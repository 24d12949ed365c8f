package main

import (
	"fmt"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/alecthomas/kong"
	"github.com/google/go-cmp/cmp"
	"google.golang.org/protobuf/testing/protocmp"
	"google.golang.org/protobuf/types/known/durationpb"

	"troupe/control"
	"troupe/messages"
)

// resolved returns the settings for arguments of "troupe up", with environment and file.
func resolved(t *testing.T, args ...string) settings {
	t.Helper()
	s, err := parseArgs(t, resolve, args...)
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// commandLine is a parser of command lines. It is made once, since that takes long under the race
// detector; a parse resets the options of the one before.
type commandLine struct {
	*kong.Kong
	commands commands
}

var newCommandLine = sync.OnceValues(func() (c *commandLine, err error) {
	c = &commandLine{}
	c.Kong, err = kong.New(&c.commands, grammar())
	return c, err
})

// parseArgs parses the arguments of "troupe up" and passes the options to a function.
func parseArgs(t *testing.T, by func(Options, string) (settings, error), args ...string) (settings, error) {
	t.Helper()
	c, err := newCommandLine()
	if err != nil {
		t.Fatal(err)
	}
	if _, err := c.Parse(append([]string{"up"}, args...)); err != nil {
		t.Fatal(err)
	}
	return by(c.commands.Up.Options, c.commands.Up.Config)
}

// writeFile writes a file and returns its path.
func writeFile(t *testing.T, dir, name, text string) string {
	t.Helper()
	path := filepath.Join(dir, name)
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

// TestPrecedence checks that each option is taken from flag, environment and file, in this order.
func TestPrecedence(t *testing.T) {
	folder := t.TempDir()
	writeFile(t, folder, "config.json", "{}")
	file := [3]string{writeFile(t, folder, "a", ""), writeFile(t, folder, "b", ""), writeFile(t, folder, "c", "")}
	bools := [3]string{"true", "false", "true"}
	values := map[string][3]string{ // flag name -> three valid values
		"name": {"a", "b", "c"}, "data": {"/a", "/b", "/c"}, "http": {":1", ":2", ":3"},
		"log-level": {"debug", "warn", "error"}, "try": {"a", "b", "c"},
		"drain-timeout": {"1s", "2s", "3s"}, "drain-grace": {"100ms", "200ms", "300ms"},
		"devices":           {"host:1x1GiB", "host:2x1GiB", "host:3x1GiB"},
		"simulated-devices": {"1xh100", "2xh200", "8x2xh200"},
		"kv-reserve":        {"0.2", "0,gpu-1=0.5", "gpu-0=0.1"}, "cublas": {"auto", "off", "libcublas.so"},
		"step-timeout": {"1s", "2s", "0s"}, "hung-timeout": {"1s", "2s", "3s"}, "canary-interval": {"1s", "2s", "0s"},
		"kv-dram": {"1GiB", "2GiB", "0"}, "kv-nvme": {"1GiB", "2GiB", "3GiB"}, "kv-nvme-path": {"/a", "/b", "/c"},
		"kv-remote": {"0", "1GiB", "64MiB"}, "kv-watermark": {"0.5", "0.6", "1"},
		"kv-restore":   {"auto", "always", "auto"},
		"kv-policy":    {"lru", "s3-fifo", "w-tinylfu"},
		"model-roots":  {folder, folder + "/," + folder, folder + "/."},
		"adapter-dram": {"0", "1GiB", "2GiB"},
		"weights-dram": {"0", "1GiB", "2GiB"}, "weights-images": {"0", "1GiB", "2GiB"},
		"join":        {"nats://a", "nats://b,nats://c:1", "d:4"},
		"nats-listen": {":4", ":5", ":6"}, "nats-routes": {"nats://a", "nats://b", "c:6"},
		"nats-cluster-listen": {":1", ":2", ":3"}, "cluster-listen": {":1", ":2", ":3"},
		"data-listen": {":1", ":2", ":3"}, "advertise": {"a", "b.c", "1.2.3.4"},
		"tls-cert": file, "tls-key": file, "tls-ca": file, "tls-revoked": file,
		"nats-creds": file, "nats-nkey": file, "nats-users": file,
		"nats-inbox-prefixes": {"_INBOX_a", "_INBOX_b,inbox.c", "d"}, "nats-trust-accounts": bools,
		"api-keys": file, "http-tls-cert": file, "http-tls-key": file, "http-behind-tls": bools,
		"http-connections": {"1", "2", "3"}, "http-connections-per-address": {"1", "2", "3"},
		"http-body-memory": {"1GiB", "2GiB", "3GiB"}, "metrics-listen": {":1", ":2", ":3"},
		"allowed-hosts": {"a", "b,c.d", "e"}, "allowed-origins": {"http://a", "https://b:1,http://c", "https://d"},
		"trusted-proxies": {"10.0.0.0/8", "10.0.0.0/8,fd00::/8", "192.0.2.1/32"},
		"audit-log":       file, "insecure": bools,
	}
	kinds := reflect.TypeFor[Options]()
	if len(values) != kinds.NumField() {
		t.Fatalf("test has %d options, Options has %d", len(values), kinds.NumField())
	}
	for i := range kinds.NumField() {
		field := kinds.Field(i)
		key := field.Tag.Get("yaml")
		flag := kebab(key)
		t.Run(flag, func(t *testing.T) {
			v := values[flag]
			line := key + ": '" + v[2] + "'\n"
			if field.Type.Kind() == reflect.Pointer { // to a bool
				line = key + ": true\n"
			}
			config := writeFile(t, folder, flag+".yaml", line)
			got := func(args ...string) string {
				s, err := parseArgs(t, mergeSources, args...)
				if err != nil {
					t.Fatal(err)
				}
				return fmt.Sprint(reflect.Indirect(reflect.ValueOf(s.given).FieldByIndex(field.Index)))
			}
			if s := got("--config", config); s != v[2] {
				t.Errorf("file: %q, want %q", s, v[2])
			}
			t.Setenv("TROUPE_"+strings.ToUpper(key), v[1])
			if s := got("--config", config); s != v[1] {
				t.Errorf("environment over file: %q, want %q", s, v[1])
			}
			if s := got("--config", config, "--"+flag+"="+v[0]); s != v[0] {
				t.Errorf("flag over environment: %q, want %q", s, v[0])
			}
		})
	}
}

func TestDefaults(t *testing.T) {
	t.Setenv("XDG_DATA_HOME", "/data")
	want := Options{
		Name: "n1", Data: "/data/troupe/n1", HTTP: "127.0.0.1:8000", NATSListen: "127.0.0.1:4222",
		Devices: "auto", LogLevel: "info", CUBLAS: "auto", DrainTimeout: "30s",
		ClusterListen: "127.0.0.1:0", DataListen: "127.0.0.1:0",
		KVWatermark: "0.9", KVRestore: "auto", KVPolicy: "s3-fifo",
	}
	if diff := cmp.Diff(want, resolved(t, "--name", "n1").Options); diff != "" {
		t.Error(diff)
	}
	if err := checkName(machineName()); err != nil {
		t.Error(err)
	}
}

// TestConfigSetsEveryField checks that every field of a file arrives, and that its paths are
// relative to the file.
func TestConfigSetsEveryField(t *testing.T) {
	folder := t.TempDir()
	writeFile(t, folder, "config.json", "{}")
	s := resolved(t, "--config", writeFile(t, folder, "node.yaml", `
data: state
deployments:
  - name: m
    path: .
    replicas: 2
    min_replicas: 0
    max_replicas: 8
    idle_after: 11
    wake_wait: 1m12s
    priority: interactive
    max_sequences: 3
    max_waiting: 4
    step_tokens: 5
    block_tokens: 6
    kv_blocks: 7
    adapter_pages: 8
    max_adapters: 9
    max_adapter_rank: 10
    default_class: batch
    slo: {ttft: 200ms, tpot: 1s}
    tensor_parallel: 1
    pinned: true
`))
	want := []*messages.DeploymentSpec{{
		Name: "m", Path: folder,
		Replicas: new(uint32(2)), MinReplicas: new(uint32(0)), MaxReplicas: new(uint32(8)),
		IdleAfter:    new(uint32(11)),
		WakeWait:     new(uint32(72)),
		Priority:     messages.Priority_PRIORITY_HIGH.Enum(),
		MaxSequences: new(uint32(3)), MaxWaiting: new(uint32(4)), StepTokens: new(uint32(5)),
		BlockTokens: new(uint32(6)), KvBlocks: new(uint32(7)),
		AdapterPages: new(uint32(8)), MaxAdapters: new(uint32(9)), MaxAdapterRank: new(uint32(10)),
		DefaultClass: messages.PriorityClass_PRIORITY_CLASS_BATCH.Enum(), TensorParallel: new(uint32(1)),
		Slo:    &messages.Slo{Ttft: durationpb.New(200 * time.Millisecond), Tpot: durationpb.New(time.Second)},
		Pinned: new(true),
	}}
	if diff := cmp.Diff(want, s.Deployments, protocmp.Transform()); diff != "" {
		t.Error(diff)
	}
	if want := filepath.Join(folder, "state"); s.Data != want {
		t.Errorf("data %s, want %s", s.Data, want)
	}
	// applied, weights_digest, revision_digest, deploy, asked_revision, drop_weights, level, replica_levels,
	// preemptions, assignments, held_by
	const notInFiles = 11
	known := want[0].ProtoReflect().Descriptor().Fields().Len() - notInFiles
	if fields := reflect.TypeFor[Deployment]().NumField(); fields != known {
		t.Errorf("the file has %d fields of a deployment, the message %d", fields, known)
	}
}

// TestTierSizes checks that a tier too small for a block is refused, and that 0 disables it.
func TestTierSizes(t *testing.T) {
	for size, want := range map[string]string{
		"0": "", "1MiB": "", "200": "200 B is too small for KV blocks", "1023KiB": "at least 1 MiB",
		"much": "is not a size",
	} {
		for _, option := range []string{"--kv-dram", "--kv-nvme", "--kv-remote"} {
			_, err := parseArgs(t, resolve, option, size)
			if want == "" && err != nil ||
				want != "" &&
					(err == nil || !strings.Contains(err.Error(), option) || !strings.Contains(err.Error(), want)) {
				t.Errorf("%s %s: %v", option, size, err)
			}
		}
	}
}

// TestConfigLimitsMatchControlAPI checks that a file and the control API have the same limits.
func TestConfigLimitsMatchControlAPI(t *testing.T) {
	folder := t.TempDir()
	writeFile(t, folder, "config.json", "{}")
	check := newChecker(folder)
	numbers := reflect.TypeFor[Deployment]()
	for i := range numbers.NumField() {
		if numbers.Field(i).Type != reflect.TypeFor[*uint32]() || numbers.Field(i).Name == "Parallel" {
			continue // what a backend can divide is the control API's matter
		}
		for shift := range 32 {
			for _, n := range []uint32{1<<shift - 1, 1 << shift, 1<<shift + 1, 1000, 1001} {
				if n == 0 {
					continue // checkConflicts refuses it with the error of the control API
				}
				d := Deployment{Name: "m", Path: "."}
				if name := numbers.Field(i).Name; name == "IdleAfter" || name == "WakeWait" {
					d.MinReplicas = new(uint32(0)) // otherwise it never sleeps
				}
				reflect.ValueOf(&d).Elem().Field(i).Set(reflect.ValueOf(&n))
				_, refused := control.Normalize(file{Deployments: []Deployment{d}}.specs()[0])
				if err := check.Struct(d); (err == nil) != (refused == nil) {
					t.Errorf("%s %d: file: %v; control API: %v", numbers.Field(i).Name, n, err, refused)
				}
			}
		}
	}
}

// TestParseSimulated checks the forms of simulated devices.
func TestParseSimulated(t *testing.T) {
	for text, want := range map[string][2]int{"16xh200": {16, 1}, "8x2xH200": {8, 2}, "": {}} {
		devices, err := parseSimulated(text)
		if err != nil || len(devices) != want[0] || len(devices) > 0 && devices[0].Group != want[1] {
			t.Errorf("%q: %d devices, %v", text, len(devices), err)
		}
	}
	for text, want := range map[string]string{
		"h200": "write 16xh200", "0xh200": "write 16xh200", "9999xh200": "write 16xh200",
		"2xm1": "use one that ships: h100, h200",
	} {
		if _, err := parseSimulated(text); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%q: %v", text, err)
		}
	}
}

func TestParseDevices(t *testing.T) {
	devices, err := parseDevices("host:2x512MiB")
	if err != nil || len(devices) != 2 || devices[1].Index != 1 || devices[1].MemoryBytes != 512<<20 ||
		devices[1].Workers != 0 {
		t.Errorf("%+v, %v", devices, err)
	}
	if limited, err := parseDevices("host:1x512MiBx3"); err != nil || limited[0].Workers != 3 ||
		limited[0].MemoryBytes != 512<<20 {
		t.Errorf("%+v, %v", limited, err)
	}
	if auto, err := parseDevices("auto"); err != nil || auto != nil || machineMemory()/2 < minDeviceBytes {
		t.Errorf("auto: %+v, %v", auto, err)
	}
}
