package scenario

import (
	"cmp"
	"fmt"
	"slices"
	"time"

	"troupe/simulate"
)

// maxDeadline is the longest time that the sequences of a preempted replica may go on, as of a node.
const maxDeadline = 10 * time.Minute

// commands reads the commands, and puts them in the order of their times.
func (s *Scenario) commands(f *File) error {
	for i, c := range f.Commands {
		at := fmt.Sprintf("commands[%d]", i)
		out, err := s.command(f, at, c)
		if err != nil {
			return err
		}
		s.Config.Commands = append(s.Config.Commands, out)
	}
	slices.SortStableFunc(s.Config.Commands, func(a, b simulate.Command) int { return cmp.Compare(a.At, b.At) })
	return nil
}

func (s *Scenario) command(f *File, at string, c Command) (out simulate.Command, err error) {
	given := 0
	for _, one := range []struct {
		kind simulate.CommandKind
		name string
	}{
		{simulate.Scale, c.Scale}, {simulate.Park, c.Park}, {simulate.Standby, c.Standby},
		{simulate.Activate, c.Activate}, {simulate.Preempt, c.Preempt}, {simulate.Drain, c.Drain},
		{simulate.Undrain, c.Undrain},
	} {
		if one.name != "" {
			given++
			out.Kind, out.Name = one.kind, one.name
		}
	}
	key, replicas := at+"."+string(out.Kind), c.Replicas
	out.At, out.Deadline = c.At.Duration, c.Deadline.Duration
	switch {
	case given != 1:
		return out, f.wrong(at, "needs one of scale, park, standby, activate, preempt, drain and undrain, and has %d "+
			"of them", given)
	case out.At < 0:
		return out, f.wrong(at, "has a negative time")
	case replicas != nil && out.Kind != simulate.Scale:
		return out, f.wrong(at+".replicas", "is for scale; remove it")
	case replicas == nil && out.Kind == simulate.Scale:
		return out, f.wrong(at+".replicas", "is missing; write a number, or 0 to stop the deployment")
	case replicas != nil && (*replicas < 0 || *replicas > 1000):
		return out, f.wrong(at+".replicas", "is %d; write a number from 0 to 1000", *replicas)
	case out.Deadline != 0 && out.Kind != simulate.Preempt:
		return out, f.wrong(at+".deadline", "is for preempt; remove it")
	case out.Deadline < 0 || out.Deadline > maxDeadline:
		return out, f.wrong(at+".deadline", "is %v; write a time from 1s to %v", out.Deadline, maxDeadline)
	}
	if replicas != nil {
		out.Replicas = *replicas
	}
	switch out.Kind {
	case simulate.Drain, simulate.Undrain:
		if !s.hasNode(out.Name) {
			return out, f.wrong(key, "%q is not under nodes", out.Name)
		}
	case simulate.Preempt:
		if !s.names(out.Name) {
			return out, f.wrong(key, "%q is of no deployment; replicas are called DEPLOYMENT-0 and so on", out.Name)
		}
	default:
		is := func(d simulate.Deployment) bool { return d.Name == out.Name }
		if !slices.ContainsFunc(s.Config.Deployments, is) {
			return out, f.wrong(key, "%q is not under deployments", out.Name)
		}
	}
	return out, nil
}
