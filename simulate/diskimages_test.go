package simulate

import (
	"testing"
	"time"

	"troupe/core/loadsource"
)

// TestDiskImages checks that weights that were loaded from a folder are written to an image on the disk once, that the
// next loads read it, also after a loss of the node, and that the least recently used image leaves if there is no room.
func TestDiskImages(t *testing.T) {
	for _, c := range []struct {
		disk                 int64
		fromDisk, fromImages int
	}{
		{0, 3, 0}, // none are kept
		{12 << 30, 1, 2},
		{4 << 30, 3, 0}, // no room
		{9 << 30, 3, 0}, // room for one: each drops that of the other model
	} {
		cfg := Config{Duration: 30 * time.Minute, Devices: devices(1), Deployments: []Deployment{sleeps("m", 0),
			sleeps("n", 0)}, Nodes: []Node{{Name: "a", Disk: 1 << 30, WeightsDisk: c.disk, DiskImage: 4 << 30}},
			Faults: []Fault{{At: 10 * time.Minute, Node: "a", For: time.Minute}}}
		for i := range cfg.Deployments {
			cfg.Deployments[i].WeightBytes = 5 << 30
		}
		result, record := simulate(t, cfg, append(append(each("m", 0), each("n", 4)...), append(each("m", 8),
			append(each("n", 12), append(each("m", 16), each("n", 20)...)...)...)...))
		for _, m := range result.Models {
			if m.Finished != 3 || m.from(loadsource.Folder).Count != c.fromDisk ||
				m.from(loadsource.DiskImage).Count != c.fromImages {
				t.Errorf("%d GiB of images: %+v\n%s", c.disk>>30, m, lives(record))
			}
			if s := m.from(loadsource.DiskImage); c.fromImages > 0 && !near(s.Seconds, 2*5.0/4) {
				t.Errorf("%d loads took %v s", s.Count, s.Seconds)
			}
		}
	}
}

// TestDiskImageOutlivesNode checks that the weights of a node that is lost are read from its disk image, though they
// never left the device.
func TestDiskImageOutlivesNode(t *testing.T) {
	cfg := Config{Duration: 10 * time.Minute, Devices: devices(1), Deployments: []Deployment{sleeps("m", 0)},
		Nodes:  []Node{{Name: "a", WeightsDisk: 4 << 30}},
		Faults: []Fault{{At: 30 * time.Second, Node: "a", For: time.Minute}}}
	result, record := simulate(t, cfg, each("m", 0, 2))
	if m := result.Models[0]; m.Finished != 2 || m.LoadCount != 2 || m.from(loadsource.DiskImage).Count != 1 {
		t.Errorf("%+v\n%s", m, lives(record))
	}
}

// TestParkOnDisk checks that weights that are parked go to an image on the disk if host memory has no room for them:
// the image that their load had left was dropped for that of another model.
func TestParkOnDisk(t *testing.T) {
	cfg := Config{Duration: 15 * time.Minute, Devices: devices(1), Deployments: []Deployment{sleeps("m", 0),
		sleeps("n", 0)}, Nodes: []Node{{Name: "a", WeightsDisk: 3 << 29, DiskImage: 1 << 30}},
		Commands: []Command{{At: 3 * time.Minute, Kind: Park, Name: "m"}, {At: 6 * time.Minute, Kind: Activate,
			Name: "m"}}}
	cfg.Deployments[0].IdleAfter = 0
	result, record := simulate(t, cfg, append(append(each("m", 0), each("n", 1)...), each("m", 8)...))
	m := result.Models[0]
	if m.Finished != 2 || m.LoadCount != 2 || m.from(loadsource.DiskImage).Count != 1 {
		t.Errorf("%+v\n%s", m, lives(record))
	}
}
