package residency

import (
	"bytes"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"time"

	"github.com/zeebo/xxh3"

	"troupe/cuda"
	"troupe/engine"
	"troupe/modelfile"
)

// An image outside host memory is a header and the weights. The header has everything but the weights:
//
//	magic, length of the header | length of the description | description (JSON) | files | XXH3 of all before
const (
	imageMagic     = "TRPIMG01"
	prefixBytes    = len(imageMagic) + 8
	maxHeaderBytes = 512 << 20
)

var errHeader = errors.New("the header is damaged")

// headerJSON is the description in a header.
type headerJSON struct {
	Path    string
	Digests engine.Digests
	Info    engine.ModelInfo
	Weights cuda.DType
	Sums    []engine.ImageSum
	Files   []fileJSON
}

type fileJSON struct {
	Name     string
	Bytes    int
	Modified time.Time
}

// EncodeHeader returns the header of an image.
func EncodeHeader(i *engine.Image) ([]byte, error) {
	h := headerJSON{Path: i.Path, Digests: i.Digests, Info: i.Info, Weights: i.Weights, Sums: i.Sums}
	names := slices.Sorted(maps.Keys(i.Files))
	for _, name := range names {
		h.Files = append(h.Files, fileJSON{name, len(i.Files[name].Content), i.Files[name].Modified})
	}
	text, err := json.Marshal(h)
	if err != nil {
		return nil, err
	}
	for _, s := range i.Sums { // the length does not depend on the checksums, which may not be known yet
		text = append(text, "                    "[len(strconv.FormatUint(s.Sum, 10)):]...)
	}
	size := prefixBytes + 4 + len(text) + int(i.Files.Bytes()) + 8
	b := make([]byte, 0, size)
	b = append(b, imageMagic...)
	b = binary.BigEndian.AppendUint64(b, uint64(size))
	b = binary.BigEndian.AppendUint32(b, uint32(len(text)))
	b = append(b, text...)
	for _, name := range names {
		b = append(b, i.Files[name].Content...)
	}
	return binary.BigEndian.AppendUint64(b, xxh3.Hash(b)), nil
}

// headerLength returns the length of the header that begins with a prefix.
func headerLength(prefix []byte) (int, error) {
	if len(prefix) < prefixBytes || string(prefix[:len(imageMagic)]) != imageMagic {
		return 0, errHeader
	}
	n := binary.BigEndian.Uint64(prefix[len(imageMagic):])
	if n < uint64(prefixBytes+12) || n > maxHeaderBytes {
		return 0, errHeader
	}
	return int(n), nil
}

// DecodeHeader returns the image that a header describes.
func DecodeHeader(b []byte) (*engine.Image, error) {
	n, err := headerLength(b)
	if err != nil || n != len(b) || binary.BigEndian.Uint64(b[n-8:]) != xxh3.Hash(b[:n-8]) {
		return nil, errHeader
	}
	rest := b[prefixBytes : n-8]
	length := int(binary.BigEndian.Uint32(rest))
	if rest = rest[4:]; length > len(rest) {
		return nil, errHeader
	}
	var h headerJSON
	if err := json.Unmarshal(rest[:length], &h); err != nil {
		return nil, fmt.Errorf("%w: %w", errHeader, err)
	}
	rest = rest[length:]
	i := &engine.Image{
		Path: h.Path, Digests: h.Digests, Info: h.Info, Weights: h.Weights, Sums: h.Sums, Files: modelfile.Files{},
	}
	for _, f := range h.Files {
		if f.Bytes < 0 || f.Bytes > len(rest) {
			return nil, errHeader
		}
		i.Files[f.Name] = modelfile.File{Content: bytes.Clone(rest[:f.Bytes]), Modified: f.Modified}
		rest = rest[f.Bytes:]
	}
	return i, checkParts(i)
}

// checkParts checks that the parts of an image are in order and have the size of its weights.
func checkParts(i *engine.Image) error {
	at := int64(0)
	for _, s := range i.Sums {
		if s.Offset != at || s.Bytes < 1 || s.Bytes > engine.ImagePartBytes {
			return errHeader
		}
		at += s.Bytes
	}
	if at != i.Info.WeightBytes {
		return errHeader
	}
	return nil
}
