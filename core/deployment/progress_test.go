package deployment

import (
	"reflect"
	"testing"
	"time"

	"troupe/core/hbm"
)

// TestProgress checks the progress that a deployment reports of its replicas: since when, of which assignment,
// and why it failed.
func TestProgress(t *testing.T) {
	d, at := New("m", "a"), func(seconds int) time.Time { return time.Unix(1000+int64(seconds), 0) }
	assign := func(now int, node string, decided int) {
		d.Handle(Apply{Need: hbm.Need{Fixed: need}, Stored: uint64(now), Spec: Spec{
			Settings: Settings{Path: "p"}, Replicas: 1, Planned: true, Assigned: map[string]Assignment{
				"m-0": {Node: node, GPUs: []string{"gpu-0"}, At: at(decided)},
			}}}, at(now))
	}
	report := func(now int, state ReplicaState) {
		d.Handle(Reported{Report: Report{Replica: "m-0", Actor: Ref{ID: "m-0"}, State: state, Revision: "r"}}, at(now))
	}
	expect := func(want ReplicaProgress) {
		t.Helper()
		want.Replica, want.GPUs = "m-0", []string{"gpu-0"}
		if got := d.Status().Replicas; !reflect.DeepEqual(got, []ReplicaProgress{want}) {
			t.Errorf("got %+v, want %+v", got, want)
		}
	}
	var members Members
	for _, node := range []string{"a", "b"} {
		members.Members = append(members.Members, Member{Name: node, Schedulable: true, GPUs: []string{"gpu-0"}})
	}
	d.Handle(members, at(0))
	d.Handle(ReplicaList{Node: "a"}, at(0))
	d.Handle(ReplicaList{Node: "b"}, at(0))
	assign(2, "a", 1)
	expect(ReplicaProgress{Node: "a", Progress: ProgressAssigned, Since: at(1), At: at(1)})
	d.Handle(Inspected{Path: "p", Need: hbm.Need{Fixed: need}}, at(3))
	d.Handle(Accepted{"m-0", Ref{ID: "m-0"}}, at(4))
	expect(ReplicaProgress{Node: "a", Progress: ProgressStarting, Since: at(3), At: at(1)})
	report(5, ReplicaServing)
	expect(ReplicaProgress{Node: "a", Progress: ProgressUp, Since: at(5), At: at(1), Files: "r"})
	assign(7, "b", 6)
	expect(ReplicaProgress{Node: "a", Progress: ProgressLeaving, Since: at(7), Files: "r"})
	d.Handle(Drained{Replica: "m-0"}, at(8))
	expect(ReplicaProgress{Node: "a", Progress: ProgressLeaving, Since: at(7), Files: "r"})
	d.Handle(Freed{d.replicas["m-0"].stopRequest()}, at(9))
	expect(ReplicaProgress{Node: "b", Progress: ProgressStarting, Since: at(9), At: at(6)})
	d.Handle(Accepted{"m-0", Ref{ID: "m-0"}}, at(10))
	report(11, ReplicaFailed)
	expect(ReplicaProgress{Node: "b", Progress: ProgressLeaving, Since: at(11), At: at(6), Files: "r",
		Failure: "replica m-0 failed to load"})
	d.Handle(Freed{d.replicas["m-0"].stopRequest()}, at(12))
	expect(ReplicaProgress{Node: "b", Progress: ProgressAssigned, Since: at(12), At: at(6),
		Failure: "replica m-0 failed to load"})
	assign(13, "a", 13)
	expect(ReplicaProgress{Node: "a", Progress: ProgressAssigned, Since: at(13), At: at(13)})
	d.Handle(Inspected{Path: "p", Need: hbm.Need{Fixed: need}}, at(14))
	d.Handle(Accepted{"m-0", Ref{ID: "m-0"}}, at(15))
	report(16, ReplicaServing)
	d.Handle(Reported{Report: Report{Replica: "m-0", Actor: Ref{ID: "m-0"}, State: ReplicaServing, Revision: "r",
		Fault: Fault{Detail: "hung"}}}, at(17))
	expect(ReplicaProgress{Node: "a", Progress: ProgressLeaving, Since: at(17), At: at(13), Files: "r", Failure: "hung",
		Served: true})
	d.Handle(Freed{d.replicas["m-0"].stopRequest()}, at(18))
	assign(19, "a", 19)
	d.Handle(Accepted{"m-0", Ref{ID: "m-0"}}, at(20))
	report(21, ReplicaServing)
	for now := 22; now <= 24; now += 2 { // it exits, is restarted, and exits again
		d.Handle(Exited{Actor: Ref{ID: "m-0"}, Why: "crashed"}, at(now))
		if d.replicas["m-0"] != nil && d.replicas["m-0"].phase == Starting {
			d.Handle(Accepted{"m-0", Ref{ID: "m-0"}}, at(now+1))
		}
	}
	if p := d.Status().Replicas[0]; p.Failure == "" || !p.Served {
		t.Errorf("got %+v after two exits", p)
	}
}
