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

// RequestOf returns the request and the adapter of a pin, or "" if the pin has ended.
func (d *PinClient) RequestOf(name string) (request, adapter string) {
	if p, ok := d.byName[name]; ok {
		return p.request, p.adapter
	}
	return "", ""
}
