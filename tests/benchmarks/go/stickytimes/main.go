// Times franz-go's cooperative-sticky balancer on a group in a file: arguments are the file, the number
// of rounds, and the CPU seconds for one.
package main

import (
	"bufio"
	"fmt"
	"os"
	"sort"
	"strconv"
	"strings"
	"syscall"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"
)

// A round that takes this long is not repeated.
const slow = 5e9

type key struct {
	topic     string
	partition int32
}

func check(err error) {
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

func number(text string) int {
	value, err := strconv.Atoi(text)
	check(err)
	return value
}

// CPU time of the process, in nanoseconds.
func cpu() int64 {
	var usage syscall.Rusage
	check(syscall.Getrusage(syscall.RUSAGE_SELF, &usage))
	return usage.Utime.Nano() + usage.Stime.Nano()
}

// Ends the process with status 3 once it has used this much CPU time.
func stopAfter(end int64, done chan struct{}) {
	for {
		select {
		case <-done:
			return
		case <-time.After(200 * time.Millisecond):
			if cpu() > end {
				os.Exit(3)
			}
		}
	}
}

func main() {
	file, err := os.Open(os.Args[1])
	check(err)
	rounds := number(os.Args[2])
	var names []string
	topics := map[string]int32{}
	owners := map[key]string{}
	var members []kmsg.JoinGroupResponseMember
	reader := bufio.NewReader(file)
	for {
		line, err := reader.ReadString('\n')
		if err != nil {
			break
		}
		cells := strings.Split(strings.TrimSuffix(line, "\n"), "\t")
		if cells[0] == "topic" {
			names = append(names, cells[1])
			topics[cells[1]] = int32(number(cells[2]))
			continue
		}
		metadata := kmsg.NewConsumerMemberMetadata()
		metadata.Version = 3
		metadata.Generation = 1
		if cells[2] != "" {
			rack := cells[2]
			metadata.Rack = &rack
		}
		for _, index := range strings.Split(cells[3], ",") {
			metadata.Topics = append(metadata.Topics, names[number(index)])
		}
		if cells[4] != "" {
			for _, part := range strings.Split(cells[4], ";") {
				topic, numbers, _ := strings.Cut(part, ":")
				owned := kmsg.NewConsumerMemberMetadataOwnedPartition()
				owned.Topic = names[number(topic)]
				for _, each := range strings.Split(numbers, ",") {
					partition := int32(number(each))
					owned.Partitions = append(owned.Partitions, partition)
					owners[key{owned.Topic, partition}] = cells[1]
				}
				metadata.OwnedPartitions = append(metadata.OwnedPartitions, owned)
			}
		}
		member := kmsg.NewJoinGroupResponseMember()
		member.MemberID = cells[1]
		member.ProtocolMetadata = metadata.AppendTo(nil)
		members = append(members, member)
	}

	limit := int64(number(os.Args[3])) * 1e9
	var times []int64
	var squares, moves int64
	for round := -1; round < rounds; round++ {
		balancer, _, err := kgo.CooperativeStickyBalancer().MemberBalancer(members)
		check(err)
		start := cpu()
		done := make(chan struct{})
		go stopAfter(start+limit, done)
		plan, err := balancer.(kgo.GroupMemberBalancerOrError).BalanceOrError(topics)
		took := cpu() - start
		close(done)
		check(err)
		if round < 0 && took < slow {
			continue
		}
		times = append(times, took)
		if len(times) > 1 {
			continue
		}
		// What is withheld in the first of two rounds moves: it is in nobody's assignment.
		assigned := plan.IntoSyncAssignment()
		kept := int64(0)
		for _, each := range assigned {
			var assignment kmsg.ConsumerMemberAssignment
			check(assignment.ReadFrom(each.MemberAssignment))
			load := int64(0)
			for _, topic := range assignment.Topics {
				for _, partition := range topic.Partitions {
					load++
					if owners[key{topic.Topic, partition}] == each.MemberID {
						kept++
					}
				}
			}
			squares += load * load
		}
		moves = int64(len(owners)) - kept
		if took >= slow {
			break
		}
	}
	sort.Slice(times, func(a, b int) bool { return times[a] < times[b] })
	fmt.Println(times[len(times)/2], squares, moves)
}
