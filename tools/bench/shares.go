package main

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"time"

	"github.com/rs/zerolog"

	"troupe/cuda/host"
	"troupe/gateway/apikey"
	"troupe/messages"
	"troupe/node"
)

// Keys of the two tenants.
const (
	floodKey = "sk-flood-0123456789"
	freeKey  = "sk-free-0123456789" // floods too, and may use any class
	quietKey = "sk-quiet-0123456789"
)

const (
	sharesFor  = 20 * time.Second // duration of each measurement
	quietPart  = 0.25             // share of the capacity: half of what one of two clients may use
	quietWords = 10               // repetitions of a phrase of about six tokens
)

// sharesPage measures the time to first token of one tenant while another floods, and returns the
// page.
func sharesPage(only string) (string, error) {
	nodes, stop, err := startTwoNodes()
	if err != nil {
		return "", err
	}
	defer stop()
	quiet := tenant{nodes: nodes, key: quietKey, body: func(i int) string {
		return fmt.Sprintf(
			`{"model":"kjv","prompt":"%d %s","max_tokens":4,"ignore_eos":true,"stream":true}`, i,
			strings.Repeat("And God said unto them. ", quietWords),
		)
	}}
	ctx := context.Background()
	for i := range 4 { // warm up
		if _, err := quiet.stream(ctx, i); err != nil {
			return "", err
		}
	}
	capacity, err := quiet.saturate(ctx, sharesFor)
	if err != nil {
		return "", err
	}
	rate := capacity * quietPart
	var rows []row
	for _, f := range floods {
		if !strings.Contains(f.name, only) {
			continue
		}
		fmt.Fprintf(os.Stderr, "%s … ", f.name)
		before := quiet.pace(ctx, rate, sharesFor)
		flooding, end := context.WithCancel(ctx)
		over := f.start(flooding, nodes)
		time.Sleep(3 * time.Second) // time to fill the queues; the figures do not depend on it
		during := quiet.pace(ctx, rate, sharesFor)
		end()
		flooded := over()
		ratio := float64(during.p99()) / float64(before.p99())
		fmt.Fprintf(os.Stderr, "%.2f\n", ratio)
		if during.failure != nil {
			flooded += "; one without an answer: " + during.failure.Error()
		}
		rows = append(rows, row{f.name, fmt.Sprintf(
			"%.2f × (p99 %s, alone %s; p50 %s, alone %s; answered %d of %d; %s)",
			ratio, round(during.p99()), round(before.p99()), round(during.p50()), round(before.p50()),
			len(during.first), during.sent, flooded,
		), "1.5 ×", yesNo(ratio <= 1.5)})
		time.Sleep(2 * time.Second)
	}
	return sharesText(rate, capacity, rows), nil
}

// round rounds a duration to few digits.
func round(d time.Duration) string {
	if d == never {
		return "never"
	}
	return d.Round(100 * time.Microsecond).String()
}

func sharesText(rate, capacity float64, rows []row) string {
	var b strings.Builder
	fmt.Fprintf(&b, `# Two tenants

Written by `+"`make bench-shares`"+`; do not edit. One tenant sends streaming requests with prompts of about
60 tokens at a fixed rate, to two nodes alternately. The other floods. Each row compares the 99th percentile of the
first tenant's time to first token with and without the flood, measured one after the other for %s each.
Absolute times depend on this machine; ratios are more portable.

The rate is %.1f requests per second: %.0f %% of the %.1f that the saturated cluster answers,
which is half of the tenant's share.

Machine: %d cores, %s, %s/%s, which both nodes, both tenants and the kernels share;
one replica of the shipped kjv-2m on a software device.

| flood | measured | aim | met |
| --- | --- | --- | --- |
`, sharesFor, rate, 100*quietPart, capacity, runtime.NumCPU(), runtime.Version(), runtime.GOOS, runtime.GOARCH)
	for _, r := range rows {
		fmt.Fprintf(&b, "| %s | %s | %s | %s |\n", r.what, r.figure, r.aim, r.met)
	}
	return b.String()
}

// startTwoNodes starts two nodes with a file of keys, and one replica.
func startTwoNodes() (addresses []string, stop func(), err error) {
	dir, err := os.MkdirTemp("", "troupe-bench")
	if err != nil {
		return nil, nil, err
	}
	undo := []func(){func() { _ = os.RemoveAll(dir) }}
	stop = func() {
		for _, f := range slices.Backward(undo) {
			f()
		}
	}
	defer func() {
		if err != nil {
			stop()
		}
	}()
	file := filepath.Join(dir, "keys.yaml")
	lines := fmt.Sprintf(
		"keys:\n- {name: flood, key: %s, max_priority: standard}\n- {name: free, key: %s}\n- {name: quiet, key: %s}\n",
		floodKey,
		freeKey,
		quietKey,
	)
	if err := os.WriteFile(file, []byte(lines), 0o600); err != nil {
		return nil, nil, err
	}
	join := ""
	for _, name := range []string{"a", "b"} {
		keys, err := apikey.Open(file, zerolog.Nop())
		if err != nil {
			return nil, nil, err
		}
		cfg := node.Config{
			Name: name, DataDir: filepath.Join(dir, name), HTTP: "127.0.0.1:0", NATSListen: "127.0.0.1:0",
			Version: "0.0.0", Log: zerolog.Nop(), Keys: keys,
			Devices:     []host.Config{{MemoryBytes: 1 << 30}},
			Deployments: []*messages.DeploymentSpec{{Name: "kjv", Path: model}},
		}
		if join != "" {
			cfg.NATSListen, cfg.Join, cfg.Deployments = "", []string{join}, nil
		}
		n, err := node.Start(context.Background(), cfg)
		if err != nil {
			return nil, nil, err
		}
		undo = append(undo, func() { _ = n.Stop(context.Background()) }) // the process exits soon
		if err := n.Ready(context.Background()); err != nil {
			return nil, nil, err
		}
		addresses, join = append(addresses, n.HTTPAddr()), n.NATSURL()
	}
	return addresses, stop, nil
}
