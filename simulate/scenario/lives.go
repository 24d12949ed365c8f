package scenario

import (
	"cmp"
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

// loads reads what loads of weights cost on a node.
func (f *File) loads(n *simulate.Node) error {
	for _, size := range []struct {
		path, is string
		to       *float64
	}{
		{"loads.disk", f.Loads.Disk, &n.Disk}, {"loads.network", f.Loads.Network, &n.Network},
		{"loads.image", f.Loads.Image, &n.DiskImage},
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
		n.DiskImage = cmp.Or(n.DiskImage, simulate.DiskImageBandwidth(p))
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
