package simulate

import (
	"bytes"
	"encoding/json"
)

// Header is the first line of a record. It has what is needed to make the same run again.
type Header struct {
	Simulated bool   `json:"simulated"` // always true
	Scenario  string `json:"scenario"`  // its name
	Seed      uint64 `json:"seed"`
	Origin
}

// Origin is where a run comes from.
type Origin struct {
	Version string    `json:"version,omitempty"` // of the program
	File    string    `json:"file,omitempty"`    // path of the scenario
	Text    string    `json:"text,omitempty"`    // of that file
	Set     []Setting `json:"set,omitempty"`     // keys with other values than in the text
	Inputs  []Input   `json:"inputs,omitempty"`
}

// Input is a file beside the scenario that a run reads: a trace, the configuration of a model, or the
// profile of a device.
type Input struct {
	Path   string `json:"path"`
	Digest string `json:"digest"` // BLAKE3 of its content, in hex
}

// line returns the header as a line of JSON, without its end.
func (h Header) line() ([]byte, error) {
	var out bytes.Buffer
	e := json.NewEncoder(&out)
	e.SetEscapeHTML(false) // so that texts stay readable
	err := e.Encode(h)
	return bytes.TrimSuffix(out.Bytes(), []byte("\n")), err
}

// Setting is a key of a scenario with the value that it has instead of the one in the file.
type Setting struct {
	Key   string `json:"key"`
	Value string `json:"value"`
}

// String returns "key=value".
func (s Setting) String() string { return s.Key + "=" + s.Value }
