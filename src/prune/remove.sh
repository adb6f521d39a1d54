# Removes one thing of sparkctl's from this node, never by force: its kind, and what it is. No input.
set -eu
state="$HOME/.local/state/sparkctl"
case $1 in
image) docker rmi "$2" ;;
volume) docker volume rm "$2" ;;
files | secrets) rm -f -- "$state/$2/$1/$3" ;;
partial)
    case $2 in
    */.sparkctl/incoming | */.sparkctl/fetch | */.sparkctl/*/incoming | */.sparkctl/*/fetch) rm -rf -- "$2" ;;
    *) echo "it is no folder of sparkctl's" >&2 && exit 1 ;;
    esac
    ;;
weights)
    [ ! -L "$2" ] && [ -f "$2/config.json" ] || { echo "it is no model's folder any more" >&2; exit 1; }
    rm -rf --one-file-system -- "$2"
    ;;
release)
    # A record that is half gone would be one that cannot be read.
    releases="$state/$2/releases"
    if [ -d "$releases/$3" ]; then
        mv -T "$releases/$3" "$releases/.$3.$$.gone"
    fi
    rm -rf -- "$releases"/.*.gone
    ;;
esac > /dev/null
