package simulate

import (
	"encoding/json"
	"errors"
	"fmt"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"troupe/workload"
)

// span is a part of the tokens of a sequence that a replica computed.
type span struct {
	replica  string
	from, to int // positions
}

// computed returns what was computed of a sequence, in the order of the record. Adjacent parts of
// the same replica are one.
func computed(t *testing.T, record, id string) (all []span) {
	t.Helper()
	last := make(map[string][]int) // indices of all in the last run, by replica
	for line := range strings.Lines(record) {
		var l struct {
			Event, Replica string
			Steps          int
			Entries        [][3]any
		}
		if err := json.Unmarshal([]byte(line), &l); err != nil {
			t.Fatal(err)
		}
		switch l.Event {
		case "step":
			last[l.Replica] = nil
			for _, e := range l.Entries {
				if from := int(e[1].(float64)); e[0] == id {
					last[l.Replica] = append(last[l.Replica], len(all))
					all = append(all, span{l.Replica, from, from + int(e[2].(float64))})
				}
			}
		case "ran":
			for _, i := range last[l.Replica] {
				all[i].to = all[i].from + l.Steps
			}
		}
	}
	merged := all[:0]
	for _, s := range all {
		if n := len(merged); n > 0 && merged[n-1].replica == s.replica && merged[n-1].to == s.from {
			merged[n-1].to = s.to
		} else {
			merged = append(merged, s)
		}
	}
	return merged
}

// onceBy reports whether a sequence of long was computed once, first by one replica and then by
// another.
func onceBy(all []span, first, then string) bool {
	return len(all) == 2 && all[0].replica == first && all[1].replica == then && all[0].from == 0 &&
		all[1].from == all[0].to && all[1].to == 160+1700-1
}

// migrating returns a configuration in which m-0 is preempted at 10 s, so that its sequences
// migrate to m-1: KV blocks of 1 MiB, over a network with 10 MiB per second.
func migrating(faults ...Fault) Config {
	cfg := onTwoNodes(deploy("m", 2), faults...)
	cfg.Nodes = []Node{{Name: "a", Network: 10 << 20}, {Name: "b", Network: 10 << 20}}
	cfg.Commands = []Command{{At: 10 * time.Second, Kind: Preempt, Name: "m-0", Deadline: 5 * time.Minute}}
	return cfg
}

// TestMigration checks that the sequence of a replica that leaves migrates to another one over the
// network, that no token of it is computed twice, and that it is not computed only while its last
// blocks are sent. Blocks that fill during that time are sent too.
func TestMigration(t *testing.T) {
	result, record := simulate(t, migrating(), []workload.Request{long(0), long(time.Millisecond)})
	m := result.Models[0]
	if m.Finished != 2 || m.Interrupted != 0 || m.OutputTokens != 2*1700 || m.Migrations != 1 ||
		m.MigrationsFailed != 0 {
		t.Errorf("%+v\n%s", m, lives(record))
	}
	if all := computed(t, record, "r0"); !onceBy(all, "m-0", "m-1") {
		t.Errorf("computed: %v\n%s", all, lives(record))
	}
	// 40 blocks take 4 s, in which the sequence fills others; the last one that is full and the
	// partial one are sent while it waits. So 59 blocks take 5.9 s, after the step in flight has
	// ended.
	if m.MigrationBlocks != 59 || m.MigrationBytes != 59<<20 || m.MigrationReused != 0 || *m.MigrationPauseP50 != 0.2 ||
		*m.MigrationP50 < 5.9 || *m.MigrationP50 > 5.93 {
		t.Errorf("%d bytes of %d blocks, %v s, of which a pause of %v s\n%s", m.MigrationBytes, m.MigrationBlocks,
			*m.MigrationP50, *m.MigrationPauseP50, lives(record))
	}
}

// TestMigrationsShare checks that sequences that migrate at the same time share the network with
// each other, and the link of a device with a load of weights.
func TestMigrationsShare(t *testing.T) {
	pairs := []workload.Request{long(0), long(time.Millisecond), long(2 * time.Millisecond), long(3 * time.Millisecond)}
	for i := range pairs {
		pairs[i].Model = "m"
	}
	slowNetwork, slowLink := migrating(), migrating()
	slowNetwork.Nodes = []Node{{Name: "a", Network: 40 << 20}, {Name: "b", Network: 40 << 20}}
	slowLink.Nodes, slowLink.Devices[1].Costs.Link = nil, 20<<20
	slowLink.Deployments = append(slowLink.Deployments, sleeps("n", 0, "b/gpu-0"))
	wakes := workload.Request{At: 10 * time.Second, Model: "n", Output: 1} // it loads from 11 s on
	for name, c := range map[string]struct {
		cfg         Config
		all         []workload.Request
		moved       int
		least, most float64 // times as long as alone
	}{
		"each other": {slowNetwork, pairs, 2, 1.9, 2.3},
		"weights":    {slowLink, append(pairs[:2:2], wakes), 1, 1.7, 2},
	} {
		alone, _ := simulate(t, c.cfg, pairs[:2])
		result, record := simulate(t, c.cfg, c.all)
		a, m := alone.Models[0], result.Models[0]
		if a.Migrations != 1 || m.Migrations != c.moved {
			t.Errorf("%s: %d and %d migrated\n%s", name, a.Migrations, m.Migrations, lives(record))
			continue
		}
		if ratio := *m.MigrationP50 / *a.MigrationP50; ratio < c.least || ratio > c.most {
			t.Errorf("%s: %v times as long\n%s", name, ratio, lives(record))
		}
	}
}

// TestMigrationFaults checks that a sequence goes on where it is if the network is cut while its
// blocks are sent, or if the other replica is lost or crashes, that it migrates later, and that no
// token is computed twice.
func TestMigrationFaults(t *testing.T) {
	stays := func(at, why string) string {
		return `{"at":` + at + `,"event":"migrate","replica":"m-0","request":"r0","target":"m-1","stays":"` + why
	}
	at, times := 12*time.Second, 16*time.Second
	for name, c := range map[string]struct {
		fault Fault
		stays string // in the record; empty: it does not
		by    string // the replica that computes the rest
	}{
		"network between the nodes": {Fault{At: at, For: times, Between: [2]string{"a", "b"}},
			stays("27.000000000", "data plane"), "m-0"},
		"network of the target": {Fault{At: at, For: times, Network: "b"},
			stays("13.200000000", "replica"), "m-2"},
		"node of the target": {Fault{At: at, For: time.Second, Node: "b"},
			stays("13.200000000", "replica"), "m-1"},
		"target": {Fault{At: at, Replica: "m-1"},
			stays("12.000000000", "data plane"), "m-1"},
		"a short cut": {Fault{At: at, For: time.Second, Between: [2]string{"a", "b"}}, "", "m-1"},
	} {
		result, record := simulate(t, migrating(c.fault), []workload.Request{long(0), long(time.Millisecond)})
		m, all := result.Models[0], computed(t, record, "r0")
		if m.Finished != 2 || m.OutputTokens != 2*1700 || (m.MigrationsFailed > 0) != (c.stays != "") ||
			!strings.Contains(record, c.stays) {
			t.Errorf("%s: %+v\n%s", name, m, lives(record))
		}
		stayed := len(all) == 1 && all[0] == span{"m-0", 0, 1859}
		if c.by == "m-0" && !stayed || c.by != "m-0" && !onceBy(all, "m-0", c.by) {
			t.Errorf("%s: computed %v, want the rest by %s\n%s", name, all, c.by, lives(record))
		}
	}
}

// TestMigrationSourceLost checks that a sequence is computed again elsewhere if its replica is lost
// while it migrates, and that the room that was reserved for it is free then.
func TestMigrationSourceLost(t *testing.T) {
	cfg := migrating(Fault{At: 12 * time.Second, Node: "a"})
	cfg.Deployments[0].MaxSequences = 2 // one runs on m-1, and the other place is reserved for 5 s
	result, record := simulate(t, cfg, []workload.Request{long(0), long(time.Millisecond)})
	if m := result.Models[0]; m.Finished != 2 || m.Interrupted != 1 || m.Migrations+m.MigrationsFailed != 0 {
		t.Errorf("%+v\n%s", m, lives(record))
	}
	all := computed(t, record, "r0")
	if len(all) != 2 || all[1] != (span{"m-1", 0, 1859}) {
		t.Errorf("computed: %v\n%s", all, lives(record))
	}
	_, after, _ := strings.Cut(record, `{"at":13.200000000,"event":"route","request":"r0"`)
	step, _, _ := strings.Cut(after, `["r0",0,`)
	if at := step[strings.LastIndex(step, `{"at":`):]; !strings.HasPrefix(at, `{"at":13.2`) {
		t.Errorf("its first step on the other replica: %s", at)
	}
}

// TestMigrationOfWaiting checks that a sequence that waits migrates without blocks, while one that
// runs stays as long as the other replica has no place for it.
func TestMigrationOfWaiting(t *testing.T) {
	cfg := migrating()
	cfg.Deployments[0].MaxSequences = 1
	result, record := simulate(t, cfg, []workload.Request{long(0), long(time.Millisecond), long(2 * time.Millisecond)})
	m := result.Models[0]
	if m.Finished != 3 || m.Migrations != 1 || m.MigrationsFailed == 0 || m.MigrationBytes != 0 || m.Interrupted != 0 {
		t.Errorf("%+v\n%s", m, lives(record))
	}
	if all := computed(t, record, "r2"); len(all) != 1 || all[0] != (span{"m-1", 0, 1859}) {
		t.Errorf("computed: %v", all)
	}
	contains(t, record, `"request":"r0","target":"m-1","stays":"all 1 places are taken"`)
}

// TestMigrationReuses checks that blocks that the other replica has are not sent.
func TestMigrationReuses(t *testing.T) {
	shares := func(q workload.Request) workload.Request {
		q.Prefix, q.PrefixBlock = []uint64{7}, 160
		return q
	}
	result, record := simulate(t, migrating(), []workload.Request{shares(long(0)), shares(long(time.Millisecond))})
	m := result.Models[0]
	if m.Migrations != 1 || m.MigrationReused != 10 || m.MigrationBytes != uint64(m.MigrationBlocks-10)<<20 {
		t.Errorf("%+v\n%s", m, lives(record))
	}
}

// TestMigrationsInReports checks that the figures of migrations are in the table, and in CSV and
// JSON, and that the table has none without migrations.
func TestMigrationsInReports(t *testing.T) {
	all := []workload.Request{long(0), long(time.Millisecond)}
	cfg := migrating()
	with, record := simulate(t, cfg, all)
	cfg.Commands = nil
	without, _ := simulate(t, cfg, all)
	for result, want := range map[*Result]int{&with: 1, &without: 0} {
		var table, list, object strings.Builder
		if err := errors.Join(PrintTable(&table, []Result{*result}), PrintCSV(&list, []Result{*result}),
			PrintJSON(&object, []Result{*result})); err != nil {
			t.Fatal(err)
		}
		lines := strings.Split(list.String(), "\n")
		header, row := strings.Split(lines[0], ","), strings.Split(lines[1], ",")
		at, key := slices.Index(header, "migrations"), fmt.Sprintf(`"migrations": %d,`, want)
		if at < 0 || row[at] != fmt.Sprint(want) || !strings.Contains(object.String(), key) ||
			strings.Contains(table.String(), "MIGRATIONS  COUNT  FAILED  BYTES ") != (want > 0) {
			t.Errorf("want %d\n%s\n%s\n%s", want, table.String(), list.String(), object.String())
		}
	}
	replayed, again := simulate(t, migrating(), all)
	if record != again || !reflect.DeepEqual(with, replayed) {
		t.Error("the same scenario gives another record")
	}
}
