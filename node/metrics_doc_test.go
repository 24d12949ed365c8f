package node_test

import (
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/rs/zerolog"

	"troupe/gateway/apikey"
	"troupe/node"
	"troupe/testkit"
)

// description matches the text of a metric description: its name, help, constant and other labels.
var description = regexp.MustCompile(
	`^Desc\{fqName: "(\w+)", help: (".*"), constLabels: \{(?:(\w+)=[^}]*)?\}, variableLabels: \{([\w,]*)\}\}$`)

// metricSections are the sections of docs/reference/metrics.md, by prefix. A metric is in the section
// with the longest prefix.
var metricSections = []struct{ prefix, title string }{
	{"troupe_gateway_", "Gateway"},
	{"troupe_gateway_key_", "API keys"},
	{"troupe_http_", "HTTP connections"},
	{"troupe_nats_", "NATS"},
	{"troupe_audit_", "Audit log"},
	{"troupe_model_", "Models"},
	{"troupe_demand_", "Demand"},
	{"troupe_planner_", "Planner"},
	{"troupe_sequences_", "Sequences"},
	{"troupe_replica_", "Replicas"},
	{"troupe_weights_", "Weights"},
	{"troupe_device_", "Devices"},
	{"troupe_switch", "Switches of GPUs between models"},
	{"troupe_turns_", "Turns of replicas on their GPU"},
	{"troupe_adapter_", "Adapters"},
	{"troupe_host_cache_", "Host cache"},
	{"troupe_kv_", "KV tiers"},
	{"troupe_kv_remote_", "KV blocks of other nodes"},
	{"troupe_actor_", "Actors"},
}

// TestMetricsAreDocumented checks that docs/reference/metrics.md lists each metric of a node with its
// labels and meaning. TROUPE_UPDATE=1 writes the page.
func TestMetricsAreDocumented(t *testing.T) {
	file := filepath.Join(t.TempDir(), "keys.yaml")
	keyed := "keys: [{name: a, key: 0123456789abcdef0123456789abcdef}]"
	if err := os.WriteFile(file, []byte(keyed), 0o600); err != nil {
		t.Fatal(err)
	}
	keys, err := apikey.Open(file, zerolog.Nop())
	if err != nil {
		t.Fatal(err)
	}
	n := start(t, func(c *node.Config) { c.Keys = keys })
	rows := make(map[string][]string)
	for _, text := range n.MetricDescriptions() {
		m := description.FindStringSubmatch(text)
		if m == nil {
			t.Fatalf("unexpected description %s", text)
		}
		if !strings.HasPrefix(m[1], "troupe_") {
			continue
		}
		section := ""
		for _, s := range metricSections {
			if strings.HasPrefix(m[1], s.prefix) && len(s.prefix) > len(section) {
				section = s.prefix
			}
		}
		var help string
		if _, err := fmt.Sscanf(m[2], "%q", &help); err != nil || section == "" {
			t.Fatalf("%s: %v; section %q of docs/reference/metrics.md", text, err, section)
		}
		labels := strings.ReplaceAll(m[3]+m[4], ",", ", ")
		rows[section] = append(rows[section], fmt.Sprintf("| `%s` | %s | %s |\n", m[1], labels, help))
	}
	var page strings.Builder
	page.WriteString("# Metrics\n\n" +
		"`/metrics` has these families for Prometheus, and those of the Go runtime and the process.\n" +
		"Names that end in `_total` are counters, those that end in `_seconds` histograms, and all others gauges.\n" +
		"A family is absent until there is something to report.\n" +
		"The gateway drops its series of a model that is no longer deployed.\n")
	for _, s := range metricSections {
		slices.Sort(rows[s.prefix])
		rows[s.prefix] = slices.Compact(rows[s.prefix])
		fmt.Fprintf(&page, "\n## %s\n\n| metric | labels | meaning |\n| --- | --- | --- |\n%s", s.title,
			strings.Join(rows[s.prefix], ""))
	}
	file = filepath.Join(testkit.Root(), "docs", "reference", "metrics.md")
	if os.Getenv("TROUPE_UPDATE") != "" {
		if err := os.WriteFile(file, []byte(page.String()), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	if got, err := os.ReadFile(file); err != nil || string(got) != page.String() {
		t.Errorf("%s differs from the metrics of a node (%v); write it with TROUPE_UPDATE=1", file, err)
	}
}
