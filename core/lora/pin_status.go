package lora

// PinOf returns the adapter that a request pins, and whether the pin is granted. It returns "" for
// a request without a pin.
func (d *PinClient) PinOf(request string) (adapter string, holds bool) {
	p, ok := d.pins[request]
	if !ok {
		return "", false
	}
	return p.adapter, p.state == granted
}
