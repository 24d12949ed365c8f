package cost

import "fmt"

// Predict returns the costs of a model on a group of devices by their facts; see the package comment.
// Copies have the bandwidth of PCIe. The origin of all figures is that of the facts.
func (d Device) Predict(m Model, tensorParallel int, e Efficiency) (Profile, error) {
	if err := d.checkFacts(tensorParallel, e); err != nil {
		return Profile{}, err
	}
	devices, bytes := float64(tensorParallel), float64(m.WeightBits)/8
	perFLOP, perByte := 1e6/(d.FLOPS.Value*devices), 1e6/(d.MemoryBandwidth.Value*devices)
	layers, output := m.layerWeights(), m.outputWeights()
	sent := 0.0 // microseconds per token
	if tensorParallel > 1 {
		sent = 1e6 * 2 * float64(m.Layers) * 2 * (devices - 1) / devices * bytes * float64(m.Hidden) /
			d.NVLinkBandwidth.Value
	}
	derived := Origin{Source: fmt.Sprintf("roofline by the facts of %s, %d devices, %.0f %% of peak FLOPS and %.0f %% "+
		"of bandwidth", d.Name, tensorParallel, 100*e.Compute, 100*e.Memory)}
	p := Profile{
		Version: Version, Name: fmt.Sprintf("%s on %d %s", m.Name, tensorParallel, d.Name), Device: d, Model: &m,
		Steps: &Stepped{Origin: derived, Steps: e.apply(Steps{
			Form:             Max,
			PromptTokenUS:    2*layers*perFLOP + sent,
			DecodeSequenceUS: 2*(layers+output)*perFLOP + sent,
			PromptPairUS:     4 * float64(m.Layers) * float64(m.Heads) * float64(m.HeadDim) * perFLOP,
			WeightsUS:        bytes * (layers + output) * perByte,
			ContextTokenUS:   float64(m.KVTokenBytes()) * perByte,
		})},
	}
	if d.PCIeBandwidth != nil {
		link := &Transferred{Linear: Linear{BytesPerSecond: d.PCIeBandwidth.Value}, Origin: d.PCIeBandwidth.Origin}
		p.Copies.HostToDevice, p.Copies.DeviceToHost, p.Loads.HostCache = link, link, link
	}
	if d.NVLinkBandwidth != nil {
		p.Copies.PeerToDevice = &Transferred{
			Linear: Linear{BytesPerSecond: d.NVLinkBandwidth.Value}, Origin: d.NVLinkBandwidth.Origin,
		}
	}
	return p, nil
}

func (d Device) checkFacts(tensorParallel int, e Efficiency) error {
	switch {
	case d.FLOPS == nil || d.MemoryBandwidth == nil:
		return fmt.Errorf("%s: the profile has no flops or no memory_bandwidth; a prediction needs both", d.Name)
	case tensorParallel < 1:
		return fmt.Errorf("%d devices; at least 1 runs a model", tensorParallel)
	case tensorParallel > 1 && d.NVLinkBandwidth == nil:
		return fmt.Errorf("%s: the profile has no nvlink_bandwidth, which a group of %d devices needs", d.Name,
			tensorParallel)
	}
	return e.check()
}
