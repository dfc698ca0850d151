# bash completion for xsched-exporter(8)                   -*- shell-script -*-
# SPDX-License-Identifier: LGPL-2.1-or-later

_xsched_exporter() {
        local options='--textfile --textfile= --max-series= --idle-timeout= --no-measure --host-processes'
        options+=' --bus-address= --help -h --version'
        local line=${COMP_LINE:0:COMP_POINT} cur=''
        local -a words
        read -ra words <<<"$line"
        [[ $line != *[[:space:]] ]] && cur=${words[-1]}

        if [[ $cur == --textfile=* ]]; then
                mapfile -t COMPREPLY < <(compgen -f -- "${cur#*=}")
                compopt -o filenames 2>/dev/null # readline quotes them
        else
                mapfile -t COMPREPLY < <(compgen -W "$options" -- "$cur")
                [[ ${#COMPREPLY[@]} == 1 && ${COMPREPLY[0]} == *= ]] && compopt -o nospace 2>/dev/null
        fi
        return 0
}

complete -F _xsched_exporter xsched-exporter
