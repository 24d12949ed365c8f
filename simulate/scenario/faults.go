package scenario

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"

	"troupe/simulate"
)

// faults reads the faults, and puts them in the order of their times.
func (s *Scenario) faults(f *File) error {
	for i, fault := range f.Faults {
		at := "faults[" + fmt.Sprint(i) + "]"
		if err := s.checkFault(f, at, fault); err != nil {
			return err
		}
		out := simulate.Fault{At: fault.At.Duration, For: max(fault.For.Duration, fault.Hang.Duration),
			Node: fault.Node, Device: fault.Device, Replica: fault.Replica, Hangs: fault.Hang.Duration > 0,
			Network: fault.Network, Disk: fault.Disk, Link: fault.Link, Slow: fault.Slow}
		copy(out.Between[:], fault.Between)
		s.Config.Faults = append(s.Config.Faults, out)
	}
	slices.SortStableFunc(s.Config.Faults, func(a, b simulate.Fault) int { return cmp.Compare(a.At, b.At) })
	return nil
}

func (s *Scenario) checkFault(f *File, at string, fault Fault) error {
	between := fault.Between != nil
	named := 0
	for _, is := range []bool{fault.Node != "", fault.Device != "", fault.Replica != "", fault.Network != "", between,
		fault.Disk != "", fault.Link != ""} {
		if is {
			named++
		}
	}
	switch {
	case named != 1:
		return f.wrong(at, "needs one of node, device, replica, network, between, disk and link, and has %d of them",
			named)
	case fault.At.Duration < 0 || fault.For.Duration < 0 || fault.Hang.Duration < 0:
		return f.wrong(at, "has a negative time")
	case fault.Replica == "" && fault.Hang.Duration > 0:
		return f.wrong(at+".hang", "is of a step of a replica; name the replica")
	case fault.Replica != "" && !s.names(fault.Replica):
		return f.wrong(at+".replica", "%q is of no deployment; replicas are called DEPLOYMENT-0 and so on",
			fault.Replica)
	case fault.Replica != "" && fault.For.Duration > 0:
		return f.wrong(at+".for", "is not for a replica, which starts again at once; write hang for a step that "+
			"takes longer")
	case between && (len(fault.Between) != 2 || fault.Between[0] == fault.Between[1]):
		return f.wrong(at+".between", "has not two different nodes; write [a, b]")
	}
	names := map[string]string{".node": fault.Node, ".network": fault.Network, ".disk": fault.Disk}
	for i, name := range fault.Between {
		names[fmt.Sprintf(".between[%d]", i)] = name
	}
	for _, key := range slices.Sorted(maps.Keys(names)) {
		if name := names[key]; name != "" && !s.hasNode(name) {
			return f.wrong(at+key, "%q is not under nodes", name)
		}
	}
	for key, name := range map[string]string{".device": fault.Device, ".link": fault.Link} { // one of them is empty
		if name != "" && !s.hasDevice(name) {
			return f.wrong(at+key, "%q does not exist; devices are called NODE/gpu-0, NODE/gpu-1 and so on", name)
		}
	}
	return checkSlow(f, at, fault)
}

func checkSlow(f *File, at string, fault Fault) error {
	switch slow := fault.Slow; {
	case fault.Node != "" || fault.Device != "" || fault.Replica != "":
		if slow != 0 {
			return f.wrong(at+".slow", "is for a network, a disk or a link; remove it")
		}
	case slow == 0 && (fault.Disk != "" || fault.Link != ""):
		return f.wrong(at+".slow", "is missing; write how many times slower it is, such as 10")
	case slow != 0 && !(slow > 1 && slow <= 1e6):
		return f.wrong(at+".slow", "is %v; write how many times slower it is, above 1, or leave it out for a network "+
			"that is cut", slow)
	}
	return nil
}

func (s *Scenario) hasNode(name string) bool {
	return slices.ContainsFunc(s.Config.Devices, func(d simulate.Device) bool { return d.Node == name })
}

func (s *Scenario) hasDevice(name string) bool {
	return slices.ContainsFunc(s.Config.Devices, func(d simulate.Device) bool { return d.Node+"/"+d.Name == name })
}

// names reports whether a deployment may have a replica of this name.
func (s *Scenario) names(replica string) bool {
	at := strings.LastIndexByte(replica, '-')
	return at > 0 && slices.ContainsFunc(s.Config.Deployments, func(d simulate.Deployment) bool {
		return d.Name == replica[:at]
	})
}
