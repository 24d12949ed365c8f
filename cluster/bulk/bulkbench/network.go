package bulkbench

import (
	"cmp"
	"context"
	"encoding/hex"
	"fmt"
	"slices"
	"strings"
	"time"

	"troupe/cluster/bulk"
	"troupe/core/cost"
	"troupe/messages"
)

const (
	networkChunk  = 1 << 20
	smallestSend  = 64 << 10
	largestSend   = 64 << 20
	sendFactor    = 4 // from one size to the next
	leastRounds   = 3
	receiverWaits = 24 * time.Hour
	openTimeout   = 10 * time.Second // of the connection to the receiver
)

// Receiver receives bytes of another machine over the data plane, and discards them.
type Receiver struct {
	plane  *bulk.Plane
	ticket *messages.BulkTicket
}

// Receive listens at an address, which is what the other machine dials unless advertise is another one.
func Receive(listen, advertise string) (*Receiver, error) {
	plane, err := bulk.Listen(bulk.Config{Listen: listen, Advertise: advertise, ExpireAfter: receiverWaits})
	if err != nil {
		return nil, err
	}
	ticket, err := plane.Expect(networkChunk, largestSend/networkChunk, func(uint32, []byte) error { return nil })
	if err != nil {
		plane.Close()
		return nil, err
	}
	return &Receiver{plane, ticket}, nil
}

// Ticket returns the ticket with which another machine may send, as text.
func (r *Receiver) Ticket() string {
	t := r.ticket
	return strings.Join([]string{t.GetAddress(), t.GetTransfer(), hex.EncodeToString(t.GetToken())}, "/")
}

// Close ends the reception.
func (r *Receiver) Close() { r.plane.Close() }

// ParseTicket reads the text of a ticket.
func ParseTicket(text string) (*messages.BulkTicket, error) {
	parts := strings.Split(text, "/")
	if len(parts) != 3 || !strings.Contains(parts[0], ":") {
		return nil, fmt.Errorf("ticket %q is not ADDRESS/TRANSFER/TOKEN; copy it from the receiver", text)
	}
	token, err := hex.DecodeString(parts[2])
	if err != nil || len(token) == 0 {
		return nil, fmt.Errorf("the token of ticket %q is not hexadecimal; copy it from the receiver", text)
	}
	return &messages.BulkTicket{Address: parts[0], Transfer: parts[1], Token: token}, nil
}

// Network sends bytes of several sizes to the receiver of a ticket for about as long as given, each size at least
// three times. It returns the median time of each size, until the receiver has acknowledged all of it. A ticket can be
// used again.
func Network(ctx context.Context, ticket *messages.BulkTicket, length time.Duration, report func(share float64)) (
	all []cost.Transfer, err error,
) {
	plane, err := bulk.Listen(bulk.Config{})
	if err != nil {
		return nil, err
	}
	defer plane.Close()
	s := &sender{plane: plane, ticket: ticket, chunk: make([]byte, networkChunk)}
	for i := range s.chunk {
		s.chunk[i] = byte(i * i >> 7)
	}
	opens, cancel := context.WithTimeout(ctx, openTimeout)
	_, err = s.send(opens, smallestSend)
	if cancel(); err != nil {
		return nil, err
	}
	took := make(map[int64][]time.Duration)
	began := time.Now()
	for round := 0; round < leastRounds || time.Since(began) < length; round++ {
		for bytes := int64(smallestSend); bytes <= largestSend; bytes *= sendFactor {
			if report != nil {
				report(min(1, time.Since(began).Seconds()/length.Seconds()))
			}
			one, err := s.send(ctx, bytes)
			if err != nil {
				return nil, err
			}
			took[bytes] = append(took[bytes], one)
		}
	}
	for bytes, times := range took {
		all = append(all, cost.Transfer{Bytes: bytes, Took: median(times)})
	}
	slices.SortFunc(all, func(a, b cost.Transfer) int { return cmp.Compare(a.Bytes, b.Bytes) })
	return all, nil
}

// sender sends the chunks of a ticket. One that was sent before is received again, and acknowledged.
type sender struct {
	plane  *bulk.Plane
	ticket *messages.BulkTicket
	chunk  []byte
}

func (s *sender) send(ctx context.Context, bytes int64) (time.Duration, error) {
	var indices []uint32
	for sent := int64(0); sent < bytes; sent += networkChunk {
		indices = append(indices, uint32(sent/networkChunk))
	}
	chunk := s.chunk[:min(bytes, networkChunk)]
	began := time.Now()
	err := s.plane.SendInPlace(ctx, s.ticket, indices, func(_ uint32, use func(...[]byte) error) error {
		return use(chunk)
	})
	return time.Since(began), err
}
