package whatif

import (
	"fmt"
	"path"
	"strings"

	"troupe/core/backend"
	"troupe/core/cost"
	"troupe/messages"
)

// costsOn returns the costs of the steps of a deployment on a kind of device, and the profile that has those of
// its loads. Those of a simulated device are predicted from its facts; assumed says so.
func (o Options) costsOn(kind string, d *messages.DeploymentSpec, s *messages.ModelSizes) (steps cost.Steps,
	of cost.Profile, assumed string, known bool,
) {
	for _, p := range o.Profiles {
		if p.Fits(kind, int64(s.GetWeightBytes()), d.GetName(), path.Base(d.GetPath())) {
			return p.Steps.Steps, p, "", true
		}
	}
	device, counted := strings.CutSuffix(kind, " (simulated)")
	group := 1
	if n, rest, ok := strings.Cut(device, " x "); ok {
		if _, err := fmt.Sscan(n, &group); err == nil {
			device = rest
		}
	}
	if !counted || group < 1 {
		return steps, of, "", false
	}
	for _, p := range o.Profiles {
		if p.Device.Name == device && p.Device.FLOPS != nil && p.Device.MemoryBandwidth != nil {
			assumed = fmt.Sprintf("the steps of %s on %s take as long as the facts of the device allow", d.GetName(),
				kind)
			return roofline(p.Device, group, s), p, assumed, true
		}
	}
	return steps, of, "", false
}

// roofline returns the costs of steps by the facts of a device: each 16-bit weight takes one multiplication and one
// addition per token, and all weights are read in each step.
func roofline(d cost.Device, group int, s *messages.ModelSizes) cost.Steps {
	perFLOP := 1e6 / (d.FLOPS.Value * float64(group))
	perByte := 1e6 / (d.MemoryBandwidth.Value * float64(group))
	perToken := float64(s.GetWeightBytes()) * perFLOP
	return cost.Steps{Form: cost.Max, PromptTokenUS: perToken, DecodeSequenceUS: perToken,
		WeightsUS: float64(s.GetWeightBytes()) * perByte, ContextTokenUS: float64(s.GetKvTokenBytes()) * perByte}
}

// noCosts returns the error for a deployment whose costs are unknown on all devices that it could use.
func noCosts(d *messages.DeploymentSpec, kinds []string) error {
	if len(kinds) == 0 {
		return fmt.Errorf("%s: no device runs engines of kind %s", d.GetName(),
			backend.Kind(d.GetEngine().GetKind()).OrNative())
	}
	return fmt.Errorf("no costs of model %s on %s; measure them there with troupe calibrate --model %s, and set "+
		"--costs FILE", d.GetName(), strings.Join(kinds, ", "), d.GetPath())
}
