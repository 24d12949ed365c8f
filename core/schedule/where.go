package schedule

// Where is where a device can get weights from, the nearest place last.
type Where uint8

// Places, which a load reads in the order of their speed.
const (
	Elsewhere   Where = iota // not on its node, or not known
	InFolder                 // the files of the model
	InDiskImage              // an image on a disk of the node
	InHostCache              // an image in host memory
	OnDevice                 // in the memory of the device
)

// String returns what the device or its node has.
func (w Where) String() string {
	return [...]string{"", "its node has the folder of the model", "its node has an image of the weights on disk",
		"its node has the weights in host memory", "it has the weights"}[w]
}
