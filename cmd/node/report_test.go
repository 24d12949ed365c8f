package main

import (
	"strings"
	"testing"

	"google.golang.org/protobuf/encoding/protojson"

	"troupe/messages"
	"troupe/testkit"
)

// TestReport reports on a node that serves a model with its device of its own: once, which gives no peak, and over
// several samples, which do.
func TestReport(t *testing.T) {
	_, url := startNode(t, t.TempDir())
	ask(t, url, "troupe.v1.models.deploy", `{"deployment": {"name": "kjv", "path": "`+testkit.Model()+`"}}`)
	serves(t, url)
	var once messages.CapacityReport
	eventually(t, func() string { // a device reports the time of its replicas each second
		text := runCommand(t, "report", "-o", "json", "--price", "2", "--nats", url)
		if err := protojson.Unmarshal([]byte(text), &once); err != nil {
			t.Fatalf("%v: %s", err, text)
		}
		if m := once.GetModels(); len(m) == 1 && m[0].GetAverage().Value != nil {
			return "known"
		}
		return text
	}, "known")
	m := once.GetModels()[0]
	if m.GetModel() != "kjv" || m.GetDevices().GetValue() != 1 || m.GetBytes().GetValue() < 1<<20 ||
		m.GetPeak().Value != nil || !strings.Contains(m.GetPeak().GetUnknown(), "--for") ||
		m.GetCost().GetValue() != 48 || once.GetSoftwareDevices() != 1 {
		t.Errorf("%v", &once)
	}
	if wasted, average := m.GetWastedHours().GetValue(), m.GetAverage().GetValue(); wasted != 24*(1-average) {
		t.Errorf("wasted %v at an average of %v", wasted, average)
	}
	text := runCommand(t, "report", "--for", "300ms", "--every", "100ms", "--nats", url)
	for _, want := range []string{"MODEL ", "WASTED/DAY\nkjv ", "\nstatic ", "\nshared ", "\ncluster ", "Software"} {
		if !strings.Contains(text, want) {
			t.Errorf("no %q in\n%s", want, text)
		}
	}
	if strings.Contains(text, "COST") || strings.Contains(text, "coincide") {
		t.Errorf("costs without a price, or bounds of a known use:\n%s", text)
	}
}
