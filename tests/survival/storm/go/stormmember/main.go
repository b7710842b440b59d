// One member of the storm with franz-go, as python_member.py. Arguments: protocol, servers, group, topic, name.
package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/signal"
	"sync"
	"syscall"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"
)

func say(what string, more map[string]any) {
	line := map[string]any{"at": time.Now().UnixMilli(), "what": what}
	for name, value := range more {
		line[name] = value
	}
	text, _ := json.Marshal(line)
	os.Stdout.Write(append(text, '\n'))
}

var (
	lock  sync.Mutex
	owned = map[int32]bool{}
)

func change(given map[string][]int32, owns bool) {
	lock.Lock()
	defer lock.Unlock()
	partitions := []int32{}
	for _, changed := range given {
		for _, partition := range changed {
			if owns {
				owned[partition] = true
			} else {
				delete(owned, partition)
			}
		}
	}
	for partition := range owned {
		partitions = append(partitions, partition)
	}
	say("owns", map[string]any{"partitions": partitions})
}

func main() {
	protocol, servers, group, topic, name := os.Args[1], os.Args[2], os.Args[3], os.Args[4], os.Args[5]
	taken := func(_ context.Context, _ *kgo.Client, given map[string][]int32) { change(given, true) }
	gone := func(_ context.Context, _ *kgo.Client, given map[string][]int32) { change(given, false) }
	options := []kgo.Opt{
		kgo.SeedBrokers(servers),
		kgo.ClientID(name),
		kgo.ConsumerGroup(group),
		kgo.ConsumeTopics(topic),
		kgo.DisableAutoCommit(),
		// what it reads is committed before its partitions can go, as its documentation advises
		kgo.BlockRebalanceOnPoll(),
		kgo.SessionTimeout(6 * time.Second),
		kgo.HeartbeatInterval(500 * time.Millisecond),
		kgo.Balancers(kgo.RangeBalancer()),
		kgo.ConsumeResetOffset(kgo.NewOffset().AtStart()),
		kgo.OnPartitionsAssigned(taken),
		kgo.OnPartitionsRevoked(gone),
		kgo.OnPartitionsLost(gone),
	}
	if protocol == "consumer" {
		options = append(options, kgo.ServerSideBalancer())
	}
	client, err := kgo.NewClient(options...)
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	leaving, cancel := signal.NotifyContext(context.Background(), syscall.SIGTERM)
	defer cancel()
	for number := 0; leaving.Err() == nil; {
		polling, stop := context.WithTimeout(leaving, 100*time.Millisecond)
		fetches := client.PollRecords(polling, 50)
		stop()
		read := map[int32]kgo.EpochOffset{}
		shown := map[string]int64{}
		fetches.EachRecord(func(record *kgo.Record) {
			read[record.Partition] = kgo.EpochOffset{Epoch: record.LeaderEpoch, Offset: record.Offset + 1}
			shown[fmt.Sprint(record.Partition)] = record.Offset + 1
		})
		if len(read) > 0 {
			number++
			say("commit", map[string]any{"n": number, "offsets": shown})
			if err := commit(client, topic, read, fmt.Sprintf("%s/%d", name, number)); err != nil {
				say("refused", map[string]any{"n": number, "error": err.Error()})
			} else {
				say("committed", map[string]any{"n": number})
			}
		}
		client.AllowRebalance()
	}
	client.CloseAllowingRebalance()
	say("left", nil)
}

func commit(client *kgo.Client, topic string, read map[int32]kgo.EpochOffset, note string) error {
	ctx, stop := context.WithTimeout(context.Background(), 20*time.Second)
	defer stop()
	ctx = kgo.PreCommitFnContext(ctx, func(request *kmsg.OffsetCommitRequest) error {
		for t := range request.Topics {
			for p := range request.Topics[t].Partitions {
				request.Topics[t].Partitions[p].Metadata = &note
			}
		}
		return nil
	})
	var result error
	client.CommitOffsetsSync(ctx, map[string]map[int32]kgo.EpochOffset{topic: read},
		func(_ *kgo.Client, _ *kmsg.OffsetCommitRequest, response *kmsg.OffsetCommitResponse, err error) {
			result = err
			if response == nil {
				return
			}
			for _, each := range response.Topics {
				for _, partition := range each.Partitions {
					result = errors.Join(result, kerr.ErrorForCode(partition.ErrorCode))
				}
			}
		})
	return result
}
