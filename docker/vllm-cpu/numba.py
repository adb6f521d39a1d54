"""Stand-in for numba (160 MB with LLVM): vLLM imports it for n-gram speculation, which runs as plain Python here."""

prange = range


def jit(*arguments, **options):
    return arguments[0] if arguments and callable(arguments[0]) else lambda function: function


njit = jit


def get_num_threads():
    return 1


def set_num_threads(_):
    pass
