package node_test

import (
	"bytes"
	"net/http"
	"os"
	"runtime"
	"strconv"
	"testing"

	"troupe/node"
)

// soakRequests returns the number of requests for TestSoak: TROUPE_SOAK, or 0.
func soakRequests() int {
	n, _ := strconv.Atoi(os.Getenv("TROUPE_SOAK"))
	return n
}

// footprint is the resource usage of an idle process.
type footprint struct {
	heap        int64 // live bytes
	goroutines  int
	descriptors int
	watchers    uint32 // of all actors
}

func measure(t *testing.T, nodes []*node.Node) (f footprint) {
	t.Helper()
	for _, n := range watchers(nodes) {
		f.watchers += n
	}
	open, err := os.ReadDir("/proc/self/fd")
	if err != nil {
		t.Fatal(err)
	}
	runtime.GC()
	runtime.GC() // frees what finalizers of the first collection released
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	f.heap, f.goroutines, f.descriptors = int64(m.HeapAlloc), runtime.NumGoroutine(), len(open)
	return f
}

// TestSoak serves requests of one token on a local and a remote replica. After the first 5,000 the
// live heap grows by at most 5 MB, and goroutines, descriptors and watchers do not grow. "make
// soak" runs it with 100,000 requests.
func TestSoak(t *testing.T) {
	total := soakRequests()
	if total == 0 {
		t.Skip("TROUPE_SOAK gives the number of requests; make soak sets it")
	}
	const warmUp, most = 5_000, 5_000_000
	nodes := startCluster(t, 2, nil)
	deploy(t, nodes[0], kjvSpec(1), nodes[1]) // one of the two gateways reaches it over the network
	body := []byte(`{"model":"kjv","prompt":[0],"max_tokens":1,"temperature":0}`)
	var before footprint
	for i := range total {
		if i == warmUp {
			before = measure(t, nodes)
		}
		req, err := http.NewRequestWithContext(t.Context(), http.MethodPost, "/v1/completions", bytes.NewReader(body))
		if err != nil {
			t.Fatal(err)
		}
		nodes[i%2].Handler().ServeHTTP(sink{http.Header{}}, req)
	}
	var after footprint
	waitFor(t, "watchers and goroutines to return to the number before", func() bool {
		after = measure(t, nodes)
		return after.watchers <= before.watchers && after.goroutines <= before.goroutines+10
	})
	t.Logf("after %d requests %+v, after %d %+v", warmUp, before, total, after)
	if grown := after.heap - before.heap; grown > most {
		t.Errorf("the live heap grew by %d bytes, more than %d", grown, most)
	}
	if after.descriptors > before.descriptors+2 {
		t.Errorf("%d descriptors are open, %d were", after.descriptors, before.descriptors)
	}
}
