// EventLoop
