// A member of the consumer protocol (KIP-848) of franz-go. Arguments: bootstrap servers, group id, topic. It tells
// "owns 0,1" and "record PARTITION OFFSET", polls until its input has a line or ends, then leaves and tells "left".
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
	lock  sync.Mutex
	owned = map[int32]bool{}
)

func change(given map[string][]int32, owns bool) {
	lock.Lock()
	defer lock.Unlock()
	for _, partitions := range given {
		for _, partition := range partitions {
			if owns {
				owned[partition] = true
			} else {
				delete(owned, partition)
			}
		}
	}
	var names []string
	for partition := range owned {
		names = append(names, fmt.Sprint(partition))
	}
	fmt.Println("owns " + strings.Join(names, ","))
}

func main() {
	taken := func(_ context.Context, _ *kgo.Client, given map[string][]int32) { change(given, true) }
	gone := func(_ context.Context, _ *kgo.Client, given map[string][]int32) { change(given, false) }
	client, err := kgo.NewClient(
		kgo.SeedBrokers(os.Args[1]),
		kgo.ConsumerGroup(os.Args[2]),
		kgo.ConsumeTopics(os.Args[3]),
		kgo.ServerSideBalancer(),
		kgo.Balancers(kgo.RangeBalancer()),
		kgo.AutoCommitInterval(200*time.Millisecond),
		kgo.ConsumeResetOffset(kgo.NewOffset().AtStart()),
		kgo.OnPartitionsAssigned(taken),
		kgo.OnPartitionsRevoked(gone),
		kgo.OnPartitionsLost(gone),
	)
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	fmt.Println("ready")
	polling, cancel := context.WithCancel(context.Background())
	go func() {
		bufio.NewReader(os.Stdin).ReadString('\n')
		cancel()
	}()
	for polling.Err() == nil {
		client.PollFetches(polling).EachRecord(func(record *kgo.Record) {
			fmt.Println("record", record.Partition, record.Offset)
		})
	}
	client.Close()
	fmt.Println("left")
}
