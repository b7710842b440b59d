// Consumers of franz-go in the consumer protocol (KIP-848), each on a goroutine. Arguments: bootstrap servers, group id,
// topic. It reads "start N" and "stop N", and tells "assigned NANOS N PARTITIONS", "revoked ..." and "stopped N":
// nanoseconds since 1970, partitions with commas.
package main

import (
	"bufio"
	"context"
	"fmt"
	"os"
	"strings"
	"sync"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"
)

var (
	output sync.Mutex
	stops  = map[string]context.CancelFunc{}
)

func say(line string) {
	output.Lock()
	defer output.Unlock()
	fmt.Println(line)
}

func tell(what, number string, given map[string][]int32) {
	now := time.Now().UnixNano()
	var names []string
	for _, partitions := range given {
		for _, partition := range partitions {
			names = append(names, fmt.Sprint(partition))
		}
	}
	say(fmt.Sprintf("%s %d %s %s", what, now, number, strings.Join(names, ",")))
}

func run(number string, polling context.Context) {
	taken := func(_ context.Context, _ *kgo.Client, given map[string][]int32) { tell("assigned", number, given) }
	gone := func(_ context.Context, _ *kgo.Client, given map[string][]int32) { tell("revoked", number, given) }
	client, err := kgo.NewClient(
		kgo.SeedBrokers(os.Args[1]),
		kgo.ConsumerGroup(os.Args[2]),
		kgo.ConsumeTopics(os.Args[3]),
		kgo.ServerSideBalancer(),
		kgo.ConsumeResetOffset(kgo.NewOffset().AtStart()),
		kgo.OnPartitionsAssigned(taken),
		kgo.OnPartitionsRevoked(gone),
		kgo.OnPartitionsLost(gone),
	)
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	for polling.Err() == nil {
		client.PollFetches(polling)
	}
	client.Close()
	say("stopped " + number)
}

func main() {
	input := bufio.NewScanner(os.Stdin)
	say("ready")
	for input.Scan() {
		words := strings.Fields(input.Text())
		if words[0] == "start" {
			polling, cancel := context.WithCancel(context.Background())
			stops[words[1]] = cancel
			go run(words[1], polling)
		} else {
			stops[words[1]]()
		}
	}
}
