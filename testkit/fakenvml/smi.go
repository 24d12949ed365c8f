package fakenvml

import (
	"encoding/xml"
	"fmt"
	"os"
	"strconv"
	"strings"
)

// smiLog is the used part of the output of nvidia-smi -q -x.
type smiLog struct {
	Driver string `xml:"driver_version"`
	CUDA   string `xml:"cuda_version"`
	GPUs   []struct {
		Name          string `xml:"product_name"`
		UUID          string `xml:"uuid"`
		PCI           string `xml:"pci>pci_bus_id"`
		Total         string `xml:"fb_memory_usage>total"`
		Used          string `xml:"fb_memory_usage>used"`
		GPUUtil       string `xml:"utilization>gpu_util"`
		MemoryUtil    string `xml:"utilization>memory_util"`
		Temperature   string `xml:"temperature>gpu_temp"`
		Power         string `xml:"gpu_power_readings>instant_power_draw"`
		PowerOld      string `xml:"gpu_power_readings>power_draw"`
		PowerLimit    string `xml:"gpu_power_readings>current_power_limit"`
		Generation    string `xml:"pci>pci_gpu_link_info>pcie_gen>current_link_gen"`
		MaxGeneration string `xml:"pci>pci_gpu_link_info>pcie_gen>max_link_gen"`
		Width         string `xml:"pci>pci_gpu_link_info>link_widths>current_link_width"`
		MaxWidth      string `xml:"pci>pci_gpu_link_info>link_widths>max_link_width"`
	} `xml:"gpu"`
}

// Capture reads a machine from recorded output of nvidia-smi -q -x.
func Capture(path string) (m Machine, err error) {
	b, err := os.ReadFile(path)
	if err != nil {
		return m, err
	}
	var log smiLog
	if err := xml.Unmarshal(b, &log); err != nil {
		return m, fmt.Errorf("%s: %w", path, err)
	}
	m.Driver, m.CUDA = log.Driver, int(1000*number(log.CUDA))
	for _, g := range log.GPUs {
		power := g.Power
		if power == "" {
			power = g.PowerOld
		}
		m.GPUs = append(m.GPUs, GPU{
			Name: g.Name, UUID: g.UUID, PCI: g.PCI, MemoryTotal: uint64(number(g.Total)) << 20,
			MemoryUsed:  uint64(number(g.Used)) << 20,
			Utilisation: int(number(g.GPUUtil)), MemoryUtilisation: int(number(g.MemoryUtil)),
			Temperature: int(number(g.Temperature)),
			Power:       int(1000 * number(power)), PowerLimit: int(1000 * number(g.PowerLimit)),
			Generation: int(number(g.Generation)), MaxGeneration: int(number(g.MaxGeneration)),
			Width: int(number(g.Width)), MaxWidth: int(number(g.MaxWidth)),
		})
	}
	return m, nil
}

// number returns the number at the start of a text such as "68.92 W" or "16x", or 0.
func number(s string) float64 {
	n, _ := strconv.ParseFloat(strings.TrimRight(strings.Fields(s + " 0")[0], "x"), 64)
	return n
}
