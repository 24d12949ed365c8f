package lora

// Asked returns the adapter that a request asked for, and whether it holds it; "" where it asks for none.
func (d *Desk) Asked(request string) (adapter string, holds bool) {
	p, ok := d.pins[request]
	if !ok {
		return "", false
	}
	return p.adapter, p.state == granted
}
