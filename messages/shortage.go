package messages

// ShortOfMemory returns why a device has no memory for a model.
func ShortOfMemory(model string, over interface {
	Sizes() (bytes, used, total, reserve int64)
}) *MemoryShortage {
	bytes, used, total, reserve := over.Sizes()
	return &MemoryShortage{
		Model: model, Bytes: uint64(bytes), Used: uint64(used), Total: uint64(total), Reserve: uint64(reserve),
	}
}
