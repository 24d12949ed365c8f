package lora

import (
	"errors"
	"fmt"
	"testing"

	"troupe/testkit/script"
)

// TestPinScripts runs testdata/pins/*.txt on a PinClient. The events are:
//
//	pin REQUEST A, unpin REQUEST
//	drain, drain stepping              prints the commands for the pool
//	granted NAME, no-room NAME, refused NAME
//	idle A                             the pool reports that A may be evicted
//	loads A                            the pool reports that it loads A
//	restart                            prints the pins that hold from the start
func TestPinScripts(t *testing.T) {
	script.Run(t, "testdata/pins/*.txt", func(t *testing.T) script.Handler {
		d := NewPinClient("7")
		return func(words []string) []string {
			switch words[0] {
			case "pin":
				state, why := d.Pin(words[1], words[2])
				if why != nil {
					return []string{"refused: " + why.Detail}
				}
				return []string{state.String()}
			case "unpin":
				d.Unpin(words[1])
			case "drain":
				return commandWords(d.Drain(len(words) > 1))
			case "granted":
				d.OnPinResult(words[1], nil)
			case "no-room":
				d.OnPinResult(words[1], refuse(NoRoom, "all pages are in use"))
			case "refused":
				d.OnPinResult(words[1], refuse(Failed, "%v", errors.New("damaged")))
			case "idle":
				d.OnState(words[1], Location{Idle, GPU})
			case "loads":
				d.OnState(words[1], Location{Loading, Disk})
			case "restart":
				for _, c := range d.OnPoolRestart() {
					words = append(words, fmt.Sprint("hold ", c.Name, " ", c.Adapter))
				}
				return words[1:]
			default:
				t.Fatalf("unknown event %q", words[0])
			}
			return nil
		}
	})
}
