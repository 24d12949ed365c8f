package lora

import "testing"

// TestAsked follows one request at the desk: it asks, it holds, it has ended.
func TestAsked(t *testing.T) {
	d := NewDesk("1")
	asked := func(adapter string, holds bool) {
		t.Helper()
		if a, h := d.Asked("r"); a != adapter || h != holds {
			t.Errorf("it asks for %q, and holds it: %v; want %q, %v", a, h, adapter, holds)
		}
	}
	asked("", false)
	d.Pin("r", "a@1")
	asked("a@1", false)
	d.Answered(d.Asks(false)[0].Name, nil)
	asked("a@1", true)
	d.Unpin("r")
	asked("", false)
}
