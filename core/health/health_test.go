package health

import (
	"strings"
	"testing"

	"pgregory.net/rapid"
)

func TestJudge(t *testing.T) {
	ecc := func(n uint64) Observation { return Observation{Uncorrectable: Known(n)} }
	at := func(o Observation) *Observation { return &o }
	for name, tc := range map[string]struct {
		before *Observation
		now    Observation
		cause  Cause
		text   string // part of the fault, or else of the notes
	}{
		"well":                             {nil, Observation{}, None, ""},
		"lost":                             {nil, Observation{Lost: "GPU is lost"}, Lost, "GPU is lost"},
		"still lost":                       {at(Observation{Lost: "x"}), Observation{Lost: "x"}, Lost, "x"},
		"errors of old":                    {nil, ecc(3), None, "3 uncorrectable memory errors (ECC) before"},
		"errors of old, seen":              {at(ecc(3)), ecc(3), None, ""},
		"new errors":                       {at(ecc(3)), ecc(5), Memory, "2 uncorrectable"},
		"errors forgotten by a reset":      {at(ecc(3)), ecc(0), None, ""},
		"errors that were not told before": {at(Observation{}), ecc(5), None, ""},
		"a row that failed":                {nil, Observation{RemapFailed: true}, Memory, "row could not be remapped"},
		"a row that had failed": {at(Observation{RemapFailed: true}), Observation{RemapFailed: true}, None,
			""},
		"a row to be replaced": {at(Observation{}), Observation{RemapPending: true}, None, "next reset"},
		"fell off the bus": {at(Observation{}), Observation{XIDs: []uint64{45, 79}}, XID,
			"XID 79: GPU has fallen off the bus; the device needs a reset"},
		"a bad kernel": {at(Observation{}), Observation{XIDs: []uint64{31}}, None,
			"XID 31: memory page fault; the running work failed"},
		"an unknown event": {at(Observation{}), Observation{XIDs: []uint64{9999}}, None, "XID 9999"},
	} {
		fault, notes := Judge(tc.before, tc.now)
		told := fault.Detail
		if tc.cause == None {
			told = strings.Join(notes, "\n")
		}
		if fault.Cause != tc.cause || !strings.Contains(told, tc.text) || tc.text == "" && told != "" {
			t.Errorf("%s: %+v, notes %q", name, fault, notes)
		}
	}
}

// TestJudgeInvariants checks the invariants explained and once, and that application faults never
// quarantine a device.
func TestJudgeInvariants(t *testing.T) {
	xid := rapid.Uint64Range(0, 200)
	observation := rapid.Custom(func(t *rapid.T) Observation {
		return Observation{
			Lost:          rapid.SampledFrom([]string{"", "", "GPU is lost"}).Draw(t, "lost"),
			Uncorrectable: Reading{rapid.Uint64Range(0, 3).Draw(t, "errors"), rapid.Bool().Draw(t, "known")},
			RemapFailed:   rapid.Bool().Draw(t, "failed"), RemapPending: rapid.Bool().Draw(t, "pending"),
			XIDs: rapid.SliceOfN(xid, 0, 3).Draw(t, "xids"),
		}
	})
	rapid.Check(t, func(t *rapid.T) {
		before, now := observation.Draw(t, "before"), observation.Draw(t, "now")
		fault, _ := Judge(&before, now)
		if (fault.Cause == None) != (fault.Detail == "") {
			t.Fatalf("explained: %+v", fault)
		}
		again := now
		again.XIDs = nil
		if fault, _ := Judge(&now, again); fault.Cause != None && now.Lost == "" {
			t.Fatalf("once: %+v was observed before", fault)
		}
		quarantined := false
		for _, x := range now.XIDs {
			quarantined = quarantined || Classify(x).Effect == OnDevice
		}
		if fault.Cause == XID && !quarantined {
			t.Fatalf("application faults: %+v caused by XIDs %v", fault, now.XIDs)
		}
	})
}

func TestTablesAreDisjoint(t *testing.T) {
	seen := map[uint64]bool{}
	for _, table := range []map[uint64]string{onDevice, onApplication, notable} {
		for code := range table {
			if seen[code] {
				t.Errorf("XID %d is in two tables", code)
			}
			seen[code] = true
		}
	}
}
