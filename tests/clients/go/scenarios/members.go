package main

import (
	"context"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"
)

// steeredMember is a member that a test steers line by line, beside members of other clients.
type steeredMember struct {
	*member
	stop context.CancelFunc
}

var steeredMembers = map[string]*steeredMember{}

// steered does one step: "join NAME PROTOCOL TOPIC GROUP", "owned NAME" (partitions with commas between them, or "-")
// or "leave NAME".
func steered(words []string) (string, error) {
	name := words[1]
	switch words[0] {
	case "join":
		options := []kgo.Opt{
			kgo.Balancers(kgo.RangeBalancer()), kgo.MetadataMinAge(100 * time.Millisecond), kgo.MetadataMaxAge(500 * time.Millisecond),
		}
		if words[2] == "consumer" {
			options = append(options, kgo.ServerSideBalancer())
		}
		ctx, stop := context.WithCancel(context.Background())
		made, err := join(ctx, words[3], words[4], options...)
		if err != nil {
			stop()
			return "", err
		}
		steeredMembers[name] = &steeredMember{made, stop}
		return "ok", nil
	case "owned":
		return steeredMembers[name].owned(), nil
	case "leave":
		// its rebalance callbacks need the polls to go on until it has left
		steeredMembers[name].Close()
		steeredMembers[name].stop()
		delete(steeredMembers, name)
		return "ok", nil
	}
	return "", fmt.Errorf("there is no step %s", words[0])
}

func (m *member) owned() string {
	has := <-m.has
	defer func() { m.has <- has }()
	var partitions []int
	for partition := range has {
		partitions = append(partitions, int(partition))
	}
	if len(partitions) == 0 {
		return "-"
	}
	slices.Sort(partitions)
	var texts []string
	for _, partition := range partitions {
		texts = append(texts, strconv.Itoa(partition))
	}
	return strings.Join(texts, ",")
}
