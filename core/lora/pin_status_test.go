package lora

import "testing"

// TestPinOf follows a request from its pin to its release.
func TestPinOf(t *testing.T) {
	d := NewPinClient("1")
	asked := func(adapter string, holds bool) {
		t.Helper()
		if a, h := d.PinOf("r"); a != adapter || h != holds {
			t.Errorf("PinOf: %q, granted %v; want %q, %v", a, h, adapter, holds)
		}
	}
	asked("", false)
	d.Pin("r", "a@1")
	asked("a@1", false)
	d.OnPinResult(d.Drain(false)[0].Name, nil)
	asked("a@1", true)
	d.Unpin("r")
	asked("", false)
}
