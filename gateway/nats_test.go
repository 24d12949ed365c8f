package gateway

import (
	"errors"
	"testing"

	"troupe/gateway/openai"
)

func TestDecodeNATS(t *testing.T) {
	r, text, err := decodeNATS("m.7b", []byte(" In the beginning\n"))
	if err != nil || !text || !r.Stream || r.Model != "m.7b" || r.Prompts[0].Text != "In the beginning" {
		t.Errorf("%+v, %v, %v", r, text, err)
	}
	r, text, err = decodeNATS("m",
		[]byte(`{"model":"other","messages":[{"role":"user","content":"a"}],"stream":false}`))
	if err != nil || text || r.Stream || !r.Chat || r.Model != "m" {
		t.Errorf("%+v, %v, %v", r, text, err)
	}
}

func FuzzDecodeNATS(f *testing.F) {
	f.Add([]byte("In the beginning"))
	f.Add([]byte(`{"prompt":"a","format":"text"}`))
	f.Fuzz(func(t *testing.T, b []byte) {
		r, _, err := decodeNATS("m", b)
		if e := (*openai.Error)(nil); err != nil && !errors.As(err, &e) || err == nil && r.Model != "m" {
			t.Fatalf("%+v, %v", r, err)
		}
	})
}
