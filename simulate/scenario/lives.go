package scenario

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"time"

	"troupe/core/deployment"
	"troupe/core/units"
	"troupe/simulate"
)

var levels = map[string]deployment.Level{"": deployment.NoLevel, "active": deployment.NoLevel,
	"standby": deployment.OnStandby, "parked": deployment.Parked}

// bounds reads how the number of replicas of a deployment may change, and their level, with the meaning of
// models.deploy.
func (f *File) bounds(at string, d Deployment, out *simulate.Deployment) error {
	out.MinReplicas, out.MaxReplicas = out.Replicas, out.Replicas
	if d.MinReplicas != nil {
		out.MinReplicas = *d.MinReplicas
		out.MaxReplicas = max(out.Replicas, out.MinReplicas)
	}
	if d.MaxReplicas != nil {
		out.MaxReplicas = *d.MaxReplicas
	}
	level, known := levels[d.Level]
	switch {
	case out.MaxReplicas == 0 && d.MaxReplicas == nil:
		return f.wrong(at+".replicas", "is 0; add min_replicas: 0 and max_replicas if requests wake the deployment")
	case out.MinReplicas < 0 || out.MinReplicas > out.MaxReplicas:
		return f.wrong(at+".min_replicas", "is %d; write a number from 0 to max_replicas, which is %d", out.MinReplicas,
			out.MaxReplicas)
	case out.MaxReplicas < 1 || out.MaxReplicas > 1000:
		return f.wrong(at+".max_replicas", "is %d; write a number from 1 to 1000", out.MaxReplicas)
	case out.Replicas > out.MaxReplicas || out.Replicas < out.MinReplicas:
		return f.wrong(at+".replicas", "is %d, and must be within min_replicas %d and max_replicas %d", out.Replicas,
			out.MinReplicas, out.MaxReplicas)
	case d.IdleAfter.Duration < 0:
		return f.wrong(at+".idle_after", "is negative; leave it out if the deployment never goes to sleep")
	case d.IdleAfter.Duration > 0 && out.MinReplicas > 0:
		return f.wrong(at+".idle_after", "is set, but with min_replicas %d the deployment never goes to sleep; set "+
			"min_replicas to 0", out.MinReplicas)
	case !known:
		return f.wrong(at+".level", "is %q; use active, standby or parked", d.Level)
	}
	out.IdleAfter, out.Level = d.IdleAfter.Duration, level
	return nil
}

// faults reads the faults, and puts them in the order of their times.
func (s *Scenario) faults(f *File) error {
	for i, fault := range f.Faults {
		at := "faults[" + fmt.Sprint(i) + "]"
		named := 0
		for _, name := range []string{fault.Node, fault.Device, fault.Replica} {
			if name != "" {
				named++
			}
		}
		node := func(d simulate.Device) bool { return d.Node == fault.Node }
		device := func(d simulate.Device) bool { return d.Node+"/"+d.Name == fault.Device }
		switch {
		case named != 1:
			return f.wrong(at, "needs one of node, device and replica, and has %d of them", named)
		case fault.At.Duration < 0 || fault.For.Duration < 0 || fault.Hang.Duration < 0:
			return f.wrong(at, "has a negative time")
		case fault.Node != "" && !slices.ContainsFunc(s.Config.Devices, node):
			return f.wrong(at+".node", "%q is not under nodes", fault.Node)
		case fault.Device != "" && !slices.ContainsFunc(s.Config.Devices, device):
			return f.wrong(at+".device", "%q does not exist; devices are called NODE/gpu-0, NODE/gpu-1 and so on",
				fault.Device)
		case fault.Replica == "" && fault.Hang.Duration > 0:
			return f.wrong(at+".hang", "is of a step of a replica; name the replica")
		case fault.Replica != "" && !s.names(fault.Replica):
			return f.wrong(at+".replica", "%q is of no deployment; replicas are called DEPLOYMENT-0 and so on",
				fault.Replica)
		case fault.Replica != "" && fault.For.Duration > 0:
			return f.wrong(at+".for", "is not for a replica, which starts again at once; write hang for a step that "+
				"takes longer")
		}
		s.Config.Faults = append(s.Config.Faults, simulate.Fault{At: fault.At.Duration,
			For: max(fault.For.Duration, fault.Hang.Duration), Node: fault.Node, Device: fault.Device,
			Replica: fault.Replica, Hangs: fault.Hang.Duration > 0})
	}
	slices.SortStableFunc(s.Config.Faults, func(a, b simulate.Fault) int { return cmp.Compare(a.At, b.At) })
	return nil
}

// names reports whether a deployment may have a replica of this name.
func (s *Scenario) names(replica string) bool {
	at := strings.LastIndexByte(replica, '-')
	return at > 0 && slices.ContainsFunc(s.Config.Deployments, func(d simulate.Deployment) bool {
		return d.Name == replica[:at]
	})
}

// loads reads what loads of weights cost on a node.
func (f *File) loads(n *simulate.Node) error {
	for _, size := range []struct {
		path, is string
		to       *float64
	}{
		{"loads.disk", f.Loads.Disk, &n.Disk}, {"loads.network", f.Loads.Network, &n.Network},
		{"loads.link", f.Loads.Link, nil}, {"loads.peer", f.Loads.Peer, nil},
	} {
		if size.is == "" {
			continue
		}
		v, err := units.ParseBytes(size.is)
		if err != nil || v == 0 {
			return f.wrong(size.path, "is %q; write a size such as 2GB, or for a bandwidth that of a second", size.is)
		}
		if size.to != nil {
			*size.to = float64(v)
		}
	}
	n.Disk = cmp.Or(n.Disk, n.DiskRead.BytesPerSecond)
	return nil
}

// costsOf returns the costs of loads and starts on a device: those in the scenario, else those of its profile. It
// sets those of the node that are not set.
func (f *File) costsOf(d Device, n *simulate.Node) simulate.DeviceCosts {
	var costs simulate.DeviceCosts
	var disk, network float64
	if p, err := f.profile(d.Kind); err == nil {
		costs, disk, network = simulate.CostsOf(p)
	}
	n.Disk, n.Network = cmp.Or(n.Disk, disk), cmp.Or(n.Network, network)
	for _, given := range []struct {
		is string
		to *float64
	}{{cmp.Or(f.Loads.Link, d.Link), &costs.Link}, {f.Loads.Peer, &costs.Peer}} {
		if v, err := units.ParseBytes(given.is); err == nil && v > 0 {
			*given.to = float64(v)
		}
	}
	for _, given := range []struct {
		is *Time
		to *time.Duration
	}{{f.Loads.Open, &costs.Open}, {f.Loads.Capture, &costs.Capture}, {f.Loads.Free, &costs.Free}} {
		if given.is != nil {
			*given.to = max(1, given.is.Duration) // 0 would be the default
		}
	}
	return costs
}
