package node_test

import (
	"bytes"
	"net/http"
	"testing"

	"github.com/rs/zerolog"

	"troupe/cuda/host"
	"troupe/messages"
	"troupe/node"
	"troupe/testkit"
)

// sink discards a response.
type sink struct{ header http.Header }

func (s sink) Header() http.Header         { return s.header }
func (s sink) Write(b []byte) (int, error) { return len(b), nil }
func (s sink) WriteHeader(int)             {}
func (s sink) Flush()                      {}

// BenchmarkRequest measures a completion of one token through gateway and actors, without a
// network.
func BenchmarkRequest(b *testing.B) {
	n, err := node.Start(b.Context(), node.Config{
		Name: "bench", DataDir: b.TempDir(), HTTP: "127.0.0.1:0", NATSListen: "127.0.0.1:0",
		Version: "0.0.0", Log: zerolog.Nop(),
		Devices:     []host.Config{{MemoryBytes: 1 << 30}},
		Deployments: []*messages.DeploymentSpec{{Name: "kjv", Path: testkit.Model()}},
	})
	if err != nil {
		b.Fatal(err)
	}
	defer n.Stop(b.Context())
	if err := n.Ready(b.Context()); err != nil {
		b.Fatal(err)
	}
	body := []byte(`{"model":"kjv","prompt":[0],"max_tokens":1,"temperature":0}`)
	b.ReportAllocs()
	for b.Loop() {
		req, err := http.NewRequestWithContext(b.Context(), http.MethodPost, "/v1/completions", bytes.NewReader(body))
		if err != nil {
			b.Fatal(err)
		}
		n.Handler().ServeHTTP(sink{http.Header{}}, req)
	}
}
