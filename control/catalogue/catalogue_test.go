package catalogue

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"google.golang.org/protobuf/proto"

	"troupe/cluster/store"
	"troupe/control"
	"troupe/messages"
)

// filled returns a catalogue of adapters given as "model name revision", followed by "pinned" if
// they are.
func filled(lines ...string) *Catalogue {
	c := New()
	for _, line := range lines {
		apply(c, line)
	}
	c.Apply(store.AdapterChange{Synced: true})
	return c
}

func apply(c *Catalogue, line string) {
	a := &messages.AdapterSpec{}
	var pinned string
	fmt.Sscan(line, &a.Model, &a.Name, &a.Revision, &pinned)
	a.Pinned = pinned != ""
	c.Apply(store.AdapterChange{Model: a.Model, Name: a.Name, Spec: a, At: a.Revision})
}

func all(*messages.AdapterSpec) bool { return true }

func TestFind(t *testing.T) {
	c := filled("kjv psalms 1", "kjv shout 2", "other shout 3", "kjv org/a.b 4")
	noOther := func(a *messages.AdapterSpec) bool { return a.GetModel() != "other" }
	const none = ":" // Name of a nil adapter
	for _, tc := range []struct {
		asked  string
		may    func(*messages.AdapterSpec) bool
		want   string
		reason messages.Reason
		say    string
	}{
		{"psalms", all, "kjv:psalms", 0, ""},
		{"kjv:psalms", all, "kjv:psalms", 0, ""},
		{"other:shout", all, "other:shout", 0, ""},
		{"org/a.b", all, "kjv:org/a.b", 0, ""},
		{"shout", noOther, "kjv:shout", 0, ""},
		{"shout", all, "", messages.Reason_REASON_INVALID_ARGUMENT, "2 adapters: kjv:shout, other:shout"},
		{"other:shout", noOther, none, 0, ""},
		{"other:psalms", all, none, 0, ""},
		{"kjv:", all, none, 0, ""},
		{":psalms", all, none, 0, ""},
		{"kjv", all, none, 0, ""},
		{"", all, none, 0, ""},
	} {
		a, err := c.Find(tc.asked, tc.may)
		var refused control.Refusal
		errors.As(err, &refused)
		if err == nil && Name(a) != tc.want ||
			err != nil &&
				(refused.GetReason() != tc.reason || tc.reason == 0 || !strings.Contains(err.Error(), tc.say)) {
			t.Errorf("%q: %v, %v", tc.asked, a, err)
		}
	}
	var names []string
	for _, a := range c.All("kjv") {
		names = append(names, a.GetName())
	}
	if got := strings.Join(names, " "); got != "org/a.b psalms shout" || len(c.All("")) != 4 {
		t.Errorf("of kjv: %s; of all: %v", got, c.All(""))
	}
}

// TestReconcile: the commands make a replica match the catalogue, and never remove a revision that
// the catalogue does not have yet.
func TestReconcile(t *testing.T) {
	held := func(lines ...string) (all []*messages.AdapterHeld) {
		for _, line := range lines {
			h := &messages.AdapterHeld{}
			var pinned string
			fmt.Sscan(line, &h.Name, &h.Revision, &pinned)
			h.Pinned = pinned != ""
			all = append(all, h)
		}
		return all
	}
	inUse := held("gone 3", "pinned 2 pinned", "late 4 pinned")
	inUse[0].Sequences = 1
	c := filled("m kept 1", "m pinned 2 pinned", "m again 5", "other gone 3", "m late 4 pinned")
	for name, tc := range map[string]struct {
		held []*messages.AdapterHeld
		want string // commands in order; at most one ApplyAdapter
	}{
		"nothing to do":            {held("kept 1", "pinned 2 pinned", "late 4 pinned"), ""},
		"deleted":                  {held("gone 3", "pinned 2 pinned", "late 4 pinned"), "forget gone@3"},
		"deleted, and in use":      {inUse, ""},
		"an older revision":        {held("again 4", "pinned 2 pinned", "late 4 pinned"), "forget again@4"},
		"not in the catalogue yet": {held("new 6", "again 7", "pinned 2 pinned", "late 4 pinned"), ""},
		"pinned and missing":       {held("pinned 2 pinned"), "apply late@4 true"},
		"pinned meanwhile":         {held("pinned 2", "late 4 pinned"), "apply pinned@2 true"},
		"unpinned meanwhile":       {held("kept 1 pinned", "pinned 2 pinned", "late 4 pinned"), "apply kept@1 false"},
		"pinned in an old revision": {
			held("again 5", "late 3 pinned", "pinned 2 pinned"), "forget late@3; apply late@4 true",
		},
	} {
		var got []string
		for _, m := range c.Reconcile("m", tc.held) {
			switch m := m.(type) {
			case *messages.ForgetAdapter:
				got = append(got, "forget "+m.GetAdapter().Key())
			case *messages.ApplyAdapter:
				got = append(got, fmt.Sprintf("apply %s %v", m.GetAdapter().Key(), m.GetAdapter().GetPinned()))
			}
		}
		if strings.Join(got, "; ") != tc.want {
			t.Errorf("%s: %v, want %q", name, got, tc.want)
		}
	}
	unread := New()
	apply(unread, "other a 9")
	if got := unread.Reconcile("m", held("kept 1")); got != nil {
		t.Errorf("before the first sync: %v", got)
	}
}

// TestDeleted checks that only adapters are deleted that the catalogue had, or could have had.
func TestDeleted(t *testing.T) {
	c := filled("m kept 1", "m again 5", "other gone 3")
	for key, want := range map[string]bool{
		"kept@1": false, "again@5": false, "again@4": true, "gone@3": true, "again@6": false, "new@6": false,
	} {
		if got := c.Deleted("m", key); got != want {
			t.Errorf("%s: %v, want %v", key, got, want)
		}
	}
	unread := New()
	apply(unread, "m other 9")
	if unread.Deleted("m", "gone@3") {
		t.Error("deleted before the first sync")
	}
}

func TestStats(t *testing.T) {
	const gpu, dram = messages.AdapterLocation_ADAPTER_LOCATION_GPU, messages.AdapterLocation_ADAPTER_LOCATION_DRAM
	replica := func(model, name string, held ...*messages.AdapterHeld) *messages.ReplicaStatus {
		return &messages.ReplicaStatus{Model: model, Name: name, Node: "n-" + name, Adapters: held}
	}
	c := filled("m a 1", "m b 4", "m unused 3", "other a 2")
	replicas := []*messages.ReplicaStatus{
		replica(
			"m",
			"m-0",
			&messages.AdapterHeld{Name: "a", Revision: 1, Location: gpu, Sequences: 1},
			&messages.AdapterHeld{Name: "b", Revision: 2, Location: gpu, Sequences: 2},
		),
		replica("m", "m-1", &messages.AdapterHeld{Name: "a", Revision: 1, Location: dram, Sequences: 4}),
		replica("other", "other-0", &messages.AdapterHeld{Name: "a", Revision: 2, Location: gpu, Pinned: true}),
	}
	got := c.Stats("m", replicas)
	want := &messages.AdapterStatsResponse{
		Registered: 3, OnGpu: 2, InDram: 1,
		Adapters: []*messages.AdapterStats{
			{Name: "a", Model: "m", Revision: 1, Sequences: 5, Replicas: []*messages.ReplicaAdapter{
				{
					Replica:   "m-0",
					Node:      "n-m-0",
					Location:  gpu,
					Sequences: 1,
				}, {Replica: "m-1", Node: "n-m-1", Location: dram, Sequences: 4}}},
			{Name: "b", Model: "m", Revision: 2, Sequences: 2, Deleted: true, Replicas: []*messages.ReplicaAdapter{
				{Replica: "m-0", Node: "n-m-0", Location: gpu, Sequences: 2}}},
		},
	}
	if !proto.Equal(got, want) {
		t.Errorf("%v", got)
	}
	shared := []*messages.ReplicaStatus{
		{Model: "m", Name: "m-0", Node: "n", Adapters: replicas[1].GetAdapters()},
		{Model: "m", Name: "m-1", Node: "n", Adapters: replicas[1].GetAdapters()},
		{Model: "m", Name: "m-2", Node: "other", Adapters: replicas[1].GetAdapters()},
	}
	if n := c.Stats("m", shared).GetInDram(); n != 2 {
		t.Errorf("%d copies in the host memory of two nodes", n)
	}
	if whole := c.Stats("", replicas); len(whole.GetAdapters()) != 3 || whole.GetRegistered() != 4 ||
		!whole.GetAdapters()[2].GetReplicas()[0].GetPinned() {
		t.Errorf("%v", whole)
	}
}

// TestAwait: a writer of an adapter waits until the watch has delivered it, or until its context
// ends.
func TestAwait(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c, began := filled(), time.Now()
		go func() {
			time.Sleep(time.Second)
			apply(c, "m a 1")
			time.Sleep(time.Second)
			apply(c, "m a 2")
		}()
		newer := func(a *messages.AdapterSpec) bool { return a.GetRevision() >= 2 }
		if err := c.Await(t.Context(), "m", "a", newer); err != nil || time.Since(began) != 2*time.Second {
			t.Errorf("%v after %v", err, time.Since(began))
		}
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		if err := New().Await(ctx, "m", "a", all); !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("a catalogue before the first sync: %v", err)
		}
	})
}

func TestBase(t *testing.T) {
	kjv, llama := &messages.DeploymentSpec{
		Name: "kjv",
		Path: "/models/kjv-2m",
	}, &messages.DeploymentSpec{
		Name: "llama",
		Path: "/models/Llama-2-7b-hf",
	}
	twice := []*messages.DeploymentSpec{kjv, llama, {Name: "again", Path: "/models/kjv-2m"}}
	for _, tc := range []struct {
		named    string
		deployed []*messages.DeploymentSpec
		want     string
	}{
		{"meta-llama/Llama-2-7b-hf", twice, "llama"},
		{"/home/ann/llama-2-7B-HF/", twice, "llama"},
		{"LLAMA", twice, "llama"},
		{"unknown", []*messages.DeploymentSpec{kjv}, "kjv"},
		{"unknown", twice, ""},
		{"kjv-2m", twice, ""},
		{"", twice, ""},
		{"kjv", nil, ""},
	} {
		got, err := Base(tc.named, tc.deployed)
		if got.GetName() != tc.want || (err == nil) != (tc.want != "") {
			t.Errorf("%s of %d: %v, %v", tc.named, len(tc.deployed), got, err)
		}
	}
	for named, ok := range map[string]bool{
		"": true, "org/kjv-2m": true, "kjv": true, "org/kjv-3m": false, "kjv-2m-chat": false,
	} {
		if err := CheckBase(named, kjv); (err == nil) != ok ||
			err != nil && !strings.Contains(err.Error(), "any_base") {
			t.Errorf("%q: %v", named, err)
		}
	}
}
